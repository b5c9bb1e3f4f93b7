//! Walks native frames by the rows that were made from `.eh_frame`.
//!
//! What is emitted for each frame: its pc and its canonical frame address (the stack pointer before the call). Only `rip`, `rsp` and
//! `rbp` are followed: what compilers need to find a caller on x86-64. Leaves out how rows are found (`Tables`) and what they mean for
//! symbols.

use crate::memory::Memory;
use crate::rows::{Rule, rule};
use crate::wire::end;

/// Offsets of registers in the `ucontext` that a signal frame holds at `rsp` (arch/x86/include/uapi/asm/sigcontext.h, v6.1:
/// `uc_mcontext` begins 40 bytes in).
mod ucontext {
    pub(super) const RBP: u64 = 40 + 10 * 8;
    pub(super) const RSP: u64 = 40 + 15 * 8;
    pub(super) const RIP: u64 = 40 + 16 * 8;
}

/// Finds rows.
pub trait Tables {
    /// The rule that holds at `pc`, or an `end` code why there is none.
    fn rule(&mut self, pc: u64) -> Result<Rule, u8>;
}

/// A walk in progress: the registers of the current frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeWalk {
    /// Program counter: of the interrupted instruction, or a return address.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer register, whatever the code uses it for.
    pub bp: u64,
    /// 1 while `pc` is a return address: it then belongs to the instruction before it.
    pub returned: u64,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Program counter.
    pub pc: u64,
    /// Canonical frame address; 0 where it is not known, `u64::MAX` for the outermost frame.
    pub cfa: u64,
}

/// The current frame, and an `end` code: `RUNNING` when `walk` has moved on to its caller.
#[inline(always)]
pub fn step(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> (NativeFrame, u8) {
    let pc = walk.pc;
    match caller(walk, tables, memory) {
        Ok(cfa) => (NativeFrame { pc, cfa }, end::RUNNING),
        Err(end::COMPLETE) => (NativeFrame { pc, cfa: u64::MAX }, end::COMPLETE),
        Err(code) => (NativeFrame { pc, cfa: 0 }, code),
    }
}

/// Moves to the caller; gives the CFA of the frame that was left.
#[inline(always)]
fn caller(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Result<u64, u8> {
    let rule = tables.rule(walk.pc - walk.returned)?;
    let cfa = match rule.kind() {
        rule::RSP => walk.sp.wrapping_add_signed(rule.offset()),
        rule::RBP => walk.bp.wrapping_add_signed(rule.offset()),
        rule::DEREF_RBP => read(memory, walk.bp.wrapping_add_signed(rule.offset()))?,
        rule::DEREF_RSP => read(memory, walk.sp.wrapping_add_signed(rule.offset()))?,
        rule::PLT => {
            let pushed = if rule.offset() != 0 { 11 } else { 10 };
            walk.sp + 8 + if walk.pc & 15 >= pushed { 8 } else { 0 }
        }
        rule::SIGNAL => return signal_return(walk, memory),
        rule::OUTERMOST => return Err(end::COMPLETE),
        rule::NONE => return Err(end::NO_UNWIND_INFO),
        _ => return Err(end::UNSUPPORTED),
    };
    if cfa <= walk.sp {
        return Err(end::BAD_FRAME);
    }
    let pc = read(memory, cfa - 8)?;
    if rule.rbp() != 0 {
        walk.bp = read(memory, cfa.wrapping_add_signed(rule.rbp()))?;
    }
    if pc == 0 {
        return Err(end::COMPLETE); // The convention of thread entry points: no return address.
    }
    walk.pc = pc;
    walk.sp = cfa;
    walk.returned = 1;
    Ok(cfa)
}

/// Leaves a signal handler: the interrupted registers are in the `ucontext`.
#[inline(always)]
fn signal_return(walk: &mut NativeWalk, memory: &impl Memory) -> Result<u64, u8> {
    let at = walk.sp;
    walk.pc = read(memory, at + ucontext::RIP)?;
    walk.bp = read(memory, at + ucontext::RBP)?;
    walk.sp = read(memory, at + ucontext::RSP)?;
    walk.returned = 0;
    Ok(walk.sp)
}

#[inline(always)]
fn read(memory: &impl Memory, address: u64) -> Result<u64, u8> {
    memory.read_word(address).ok_or(end::FAULT)
}
