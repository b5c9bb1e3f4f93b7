//! Walks native frames by the rows that were made from `.eh_frame`.
//!
//! What is emitted for each frame: its pc and its canonical frame address (the stack pointer before the call). Only `rip`, `rsp`, `rbp` and
//! `rbx` are followed: what compilers need to find a caller on x86-64. Of `rbx` only the place is kept, for few rules ask for it; other
//! registers are known where code was interrupted, and not in its callers. Leaves out how rows are found (`Tables`) and what they
//! mean for symbols.

use crate::calls::{direct_target, is_indirect};
use crate::memory::Memory;
use crate::rows::{FullRule, Operand, Rule, base, rule};
use crate::scan;
use crate::wire::{PythonLayout, end};

pub use crate::scan::{Candidates, Found, SCAN_WORDS, find_caller};

/// Offsets of registers in the `ucontext` that a signal frame holds at `rsp` (arch/x86/include/uapi/asm/sigcontext.h, v6.1:
/// `uc_mcontext` begins 40 bytes in).
mod ucontext {
    pub(super) const RBX: u64 = 40 + 11 * 8;
    pub(super) const RBP: u64 = 40 + 10 * 8;
    pub(super) const RSP: u64 = 40 + 15 * 8;
    pub(super) const RIP: u64 = 40 + 16 * 8;

    /// Offset of a register by DWARF's number. A nibble each, the lowest first: the order there is r8…r15, rdi, rsi, rbp, rbx, rdx, rax,
    /// rcx, rsp.
    pub(super) const fn register(number: u32) -> u64 {
        40 + (0x7654_3210_fa89_becd >> ((number & 15) * 4) & 15) * 8
    }
}

/// Finds rows.
pub trait Tables {
    /// The rule that holds at `pc`, or an `end` code why there is none.
    fn rule(&mut self, pc: u64) -> Result<Rule, u8>;

    /// Why nothing holds at `pc`, where that is known without a search.
    fn known_none(&mut self, _pc: u64) -> Option<u8> {
        None
    }

    /// A rule in full, by its number.
    fn full(&mut self, _index: u32) -> Option<FullRule> {
        None
    }

    /// A register of the interrupted code, by DWARF's number.
    fn interrupted(&mut self, _register: u32) -> Option<u64> {
        None
    }

    /// The caller of code that a HotSpot made, where its layout is known.
    fn hotspot_caller(&mut self, _walk: &NativeWalk, _memory: &impl Memory) -> Result<NativeWalk, u8> {
        Err(end::NO_UNWIND_INFO)
    }

    /// The caller of code that V8 made.
    fn v8_caller(&mut self, _walk: &NativeWalk, _memory: &impl Memory) -> Result<NativeWalk, u8> {
        Err(end::NO_UNWIND_INFO)
    }

    /// Moves to the caller by a rule of kind `SIGNAL`, `FULL`, `HOTSPOT` or `V8`: `rare_caller`. The probes put a function of its own here, so that the
    /// verifier does not look at it wherever a frame is taken.
    #[inline(always)]
    fn rare(&mut self, walk: &mut NativeWalk, rule: Rule, memory: &impl Memory) -> Result<u64, u8>
    where
        Self: Sized,
    {
        rare_caller(walk, rule, self, memory)
    }

    /// How many more steps succeed from there, two at most. The probes have functions of their own for this too, and for the next.
    #[inline(always)]
    fn goes_on(&mut self, trial: NativeWalk, memory: &impl Memory) -> u32
    where
        Self: Sized,
    {
        scan::goes_on(trial, self, memory)
    }

    /// How many indirect calls the chain of `from` has before it leads to `to`; `None` where it does not.
    #[inline(always)]
    fn leads_through(&mut self, from: &NativeWalk, to: &NativeWalk, memory: &impl Memory) -> Option<u64>
    where
        Self: Sized,
    {
        scan::leads_through(from, to, self, memory)
    }
}

/// Stands for a frame pointer that is not known: no end of a stack, and no address.
pub const NO_FRAME_POINTER: u64 = 1;

/// Where registers of the current frame are: at this address, or one of the two below.
pub mod place {
    /// Nobody knows.
    pub const UNKNOWN: u64 = 0;
    /// They are those of the interrupted code.
    pub const INTERRUPTED: u64 = 1;
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
    /// Address where `rbx` was saved, or a `place`.
    pub bx_at: u64,
    /// Address of the `ucontext` that has the registers that nobody saves, or a `place`.
    pub others_at: u64,
}

impl NativeWalk {
    /// Address in the instruction that runs or that called: a return address less one, for it belongs to the call before it.
    #[inline(always)]
    pub const fn at(&self) -> u64 {
        self.pc.wrapping_sub(self.returned)
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Address in the instruction that runs or that called: a return address less one, for it belongs to the call before it.
    pub pc: u64,
    /// Canonical frame address; 0 where it is not known, `u64::MAX` for the outermost frame.
    pub cfa: u64,
}

/// The current frame, and an `end` code: `RUNNING` when `walk` has moved on to its caller.
#[inline(always)]
pub fn step(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> (NativeFrame, u8) {
    let (pc, at) = (walk.pc, walk.at());
    let (cfa, code) = match caller(walk, tables, memory) {
        Ok(cfa) => (cfa, end::RUNNING),
        Err(end::COMPLETE) => (u64::MAX, end::COMPLETE),
        Err(code) => (0, code),
    };
    // A frame that no call made: `rule_of`, and the trampoline behind a signal handler.
    let pc = if walk.returned == 0 { pc } else { at };
    (NativeFrame { pc, cfa }, code)
}

/// The rule of a frame. Some were entered by a return and no call: what puts a stack together writes the address of a function's first byte
/// on it, and nothing holds before that byte. Such a function has no caller (`__start_context` of `makecontext`), or is the trampoline
/// behind a signal handler.
#[inline(always)]
fn rule_of(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Result<Rule, u8> {
    let found = tables.rule(walk.at());
    let is_none = match found {
        Ok(rule) => rule.kind() == rule::NONE,
        Err(code) => code == end::NO_UNWIND_INFO,
    };
    if !is_none || walk.returned == 0 {
        return found;
    }
    let entered = entered_by_return(walk.pc, tables, memory);
    if entered.is_some() {
        walk.returned = 0;
    }
    entered.map_or(found, |kind| Ok(Rule(kind << 28)))
}

/// The kind of rule of a function that was entered at its first byte, by a return; `None` where that is not known.
#[inline(always)]
fn entered_by_return(pc: u64, tables: &mut impl Tables, memory: &impl Memory) -> Option<u32> {
    // `mov $15, %rax; syscall`, and the same by `%eax`: `rt_sigreturn` (15: arch/x86/entry/syscalls/syscall_64.tbl).
    const BY_RAX: u64 = 0x0f00_0000_0fc0_c748;
    const BY_EAX: u64 = 0x05_0f00_0000_0fb8;
    let code = memory.read_word(pc).unwrap_or(0);
    if code == BY_RAX || code & (u64::MAX >> 8) == BY_EAX {
        return Some(rule::SIGNAL);
    }
    if tables.rule(pc).is_ok_and(|rule| !matches!(rule.kind(), rule::NONE | rule::SIGNAL)) {
        // Code that cannot be read was not run yet, and has not called.
        let before = memory.read_word(pc.wrapping_sub(8));
        let is_call = before.is_some_and(|bytes| direct_target(bytes, pc).is_some() || is_indirect(bytes));
        return if is_call { None } else { Some(rule::OUTERMOST) };
    }
    None
}

/// Moves to the caller; gives the CFA of the frame that was left.
#[inline(always)]
pub(crate) fn caller(
    walk: &mut NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    let rule = rule_of(walk, tables, memory)?;
    let mut cfa = match rule.kind() {
        rule::RSP | rule::DEREF_RSP | rule::DEREF_RSP_8 => walk.sp.wrapping_add_signed(rule.offset()),
        rule::RBP | rule::DEREF_RBP => walk.bp.wrapping_add_signed(rule.offset()),
        rule::PLT => {
            let pushed = if rule.offset() != 0 { 11 } else { 10 };
            walk.sp.wrapping_add(if walk.pc & 15 >= pushed { 16 } else { 8 })
        }
        rule::SIGNAL | rule::FULL | rule::HOTSPOT | rule::V8 => return tables.rare(walk, rule, memory),
        rule::OUTERMOST => return Err(end::COMPLETE),
        rule::NONE => return Err(end::NO_UNWIND_INFO),
        _ => return Err(end::UNSUPPORTED),
    };
    if matches!(rule.kind(), rule::DEREF_RBP | rule::DEREF_RSP | rule::DEREF_RSP_8) {
        cfa = read(memory, cfa)?.wrapping_add(if rule.kind() == rule::DEREF_RSP_8 { 8 } else { 0 });
    }
    if cfa <= walk.sp {
        return Err(end::BAD_FRAME);
    }
    let ra_at = cfa.wrapping_sub(8);
    let pc = read(memory, ra_at)?;
    let deref_rbp = rule.kind() == rule::DEREF_RBP;
    if rule.rbx_down() != 0 {
        walk.bx_at = (if deref_rbp { walk.bp } else { ra_at }).wrapping_sub(rule.rbx_down());
    }
    if deref_rbp {
        walk.bp = read(memory, walk.bp)?;
    } else if rule.rbp() != 0 {
        walk.bp = read(memory, cfa.wrapping_add_signed(rule.rbp()))?;
    }
    arrive(walk, pc, cfa)
}

/// Moves to the caller by a rule that few frames have; gives the CFA, which is the caller's stack pointer.
///
/// # Errors
/// An `end` code.
#[inline(always)]
pub fn rare_caller(
    walk: &mut NativeWalk,
    rule: Rule,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    match rule.kind() {
        rule::SIGNAL => signal_return(walk, memory),
        rule::HOTSPOT => {
            *walk = tables.hotspot_caller(walk, memory)?;
            Ok(walk.sp)
        }
        rule::V8 => {
            *walk = tables.v8_caller(walk, memory)?;
            Ok(walk.sp)
        }
        _ => caller_in_full(walk, rule, tables, memory),
    }
}

/// The caller is found.
#[inline(always)]
const fn arrive(walk: &mut NativeWalk, pc: u64, cfa: u64) -> Result<u64, u8> {
    if pc == 0 {
        return Err(end::COMPLETE); // The convention of thread entry points: no return address.
    }
    walk.pc = pc;
    walk.sp = cfa;
    walk.returned = 1;
    walk.others_at = place::UNKNOWN;
    Ok(cfa)
}

/// Moves to the caller by a rule in full.
#[inline(always)]
fn caller_in_full(
    walk: &mut NativeWalk,
    rule: Rule,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    let full = tables.full(rule.index()).ok_or(end::UNSUPPORTED)?;
    let cfa = value(full.cfa, walk, 0, tables, memory)?.wrapping_add_signed(full.add);
    // Code that has popped its return address into a register has nothing on the stack.
    if cfa < walk.sp || cfa == walk.sp && full.ra.is_word() {
        return Err(end::BAD_FRAME);
    }
    let pc = value(full.ra, walk, cfa, tables, memory)?;
    let bp = match full.rbp {
        Operand::SAME => walk.bp,
        saved => value(saved, walk, cfa, tables, memory)?,
    };
    if full.rbx != Operand::SAME {
        let place = Operand::sum(full.rbx.base(), full.rbx.offset() as i32);
        let saved = full.rbx.is_word();
        walk.bx_at = if saved { value(place, walk, cfa, tables, memory)? } else { place::UNKNOWN };
    }
    walk.bp = bp;
    arrive(walk, pc, cfa)
}

/// The value of an operand in the current frame.
#[inline(always)]
fn value(
    operand: Operand,
    walk: &NativeWalk,
    cfa: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    let from = match operand.base() {
        base::CFA => cfa,
        base::RSP => walk.sp,
        base::RBP => walk.bp,
        register @ 0..=base::LAST => {
            let saved = register == base::RBX;
            match if saved { walk.bx_at } else { walk.others_at } {
                place::UNKNOWN => return Err(end::UNSUPPORTED),
                place::INTERRUPTED => tables.interrupted(register).ok_or(end::UNSUPPORTED)?,
                at if saved => read(memory, at)?,
                at => read(memory, at.wrapping_add(ucontext::register(register)))?,
            }
        }
        _ => return Err(end::UNSUPPORTED),
    };
    let sum = from.wrapping_add_signed(operand.offset());
    if operand.is_word() { read(memory, sum) } else { Ok(sum) }
}

/// Leaves a signal handler: the interrupted registers are in the `ucontext`.
#[inline(always)]
fn signal_return(walk: &mut NativeWalk, memory: &impl Memory) -> Result<u64, u8> {
    let at = walk.sp;
    walk.pc = read(memory, at.wrapping_add(ucontext::RIP))?;
    walk.bp = read(memory, at.wrapping_add(ucontext::RBP))?;
    walk.sp = read(memory, at.wrapping_add(ucontext::RSP))?;
    walk.returned = 0;
    walk.bx_at = at.wrapping_add(ucontext::RBX);
    walk.others_at = at;
    Ok(walk.sp)
}

/// Gaps that are bridged in one stack.
pub const MAX_RECOVERED: u32 = 32;

/// Goes on at the interpreter's frame that holds `anchor`, where native frames were lost before it. The distances from the anchor are
/// learned from complete samples: they are the same wherever this interpreter evaluates.
#[inline(always)]
pub fn resume(anchor: u64, layout: &PythonLayout, memory: &impl Memory) -> Option<NativeWalk> {
    let cfa = anchor.wrapping_add(u64::from(layout.eval_cfa));
    let pc = memory.read_word(cfa.wrapping_sub(8))?;
    let bp = match layout.eval_rbp {
        0 => NO_FRAME_POINTER,
        down => memory.read_word(cfa.wrapping_sub(u64::from(down)))?,
    };
    Some(NativeWalk { pc, sp: cfa, bp, returned: 1, ..NativeWalk::default() })
}

#[inline(always)]
fn read(memory: &impl Memory, address: u64) -> Result<u64, u8> {
    memory.read_word(address).ok_or(end::FAULT)
}
