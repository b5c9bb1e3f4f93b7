//! What HotSpot makes is not known on this processor: its code is scanned as any code without unwind information.

use crate::arch::Depth;
use crate::memory::Memory;

/// Whether its frames are known.
pub const IS_KNOWN: bool = false;

/// Nobody knows how much of a compiled method's frame is there among its first instructions.
#[inline(always)]
pub const fn depth_in_prologue(_pc: u64, _memory: &impl Memory) -> Option<Depth> {
    None
}

/// Nor behind them.
#[inline(always)]
pub const fn depth_in_epilogue(_pc: u64, _memory: &impl Memory) -> Option<Depth> {
    None
}

/// Nor whether an interpreted method's is.
#[inline(always)]
pub const fn has_method_frame(_pc: u64, _bytecodes: &[u64; 2], _memory: &impl Memory) -> Option<bool> {
    None
}
