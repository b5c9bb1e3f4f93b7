//! What V8 makes is not known on this processor: its code is scanned as any code without unwind information.

use crate::memory::Memory;

/// Whether its frames are known.
pub const IS_KNOWN: bool = false;

/// Nobody knows whether the instructions around are those outside of a frame.
#[inline(always)]
pub const fn has_no_frame(_pc: u64, _returned: &u64, _memory: &impl Memory) -> Option<bool> {
    None
}

/// Nor whether half a frame is there.
#[inline(always)]
pub const fn has_pushed(_pc: u64, _returned: &u64, _memory: &impl Memory) -> Option<bool> {
    None
}

/// Nor whether a frame is being given back.
#[inline(always)]
pub const fn drops_arguments(_code: u64) -> bool {
    true
}
