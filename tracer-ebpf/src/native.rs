//! Walks native frames by the rows that were made from `.eh_frame`.
//!
//! What is emitted for each frame: its pc and its canonical frame address (the stack pointer before the call). Only the program
//! counter, the stack pointer, the frame pointer and one other register (`base::CALLEE_SAVED`) are followed: what compilers need to find a caller.
//! Of the last only the place is kept, for few rules ask for it; other registers are known where code was interrupted, and not in its callers. Leaves out how rows are found (`Tables`) and what they
//! mean for symbols.

use crate::arch::call::{direct_target, is_indirect};
use crate::arch::{frame, plt, signal_frame};
use crate::memory::Memory;
use crate::rows::{FullRule, Operand, Rule, base, rule};
use crate::scan;
use crate::wire::{PythonLayout, end};

pub use crate::scan::{Candidates, Found, SCAN_WORDS, find_caller};

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
    pub fp: u64,
    /// 1 while `pc` is a return address: it then belongs to the instruction before it.
    pub returned: u64,
    /// Address where `base::CALLEE_SAVED` was saved, or a `place`.
    pub callee_saved_at: u64,
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
    let code = memory.read_word(pc).unwrap_or(0);
    if signal_frame::is_return(code) {
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
        rule::SP | rule::DEREF_SP | rule::DEREF_SP_8 => walk.sp.wrapping_add_signed(rule.offset()),
        rule::FP | rule::DEREF_FP => walk.fp.wrapping_add_signed(rule.offset()),
        rule::PLT => plt::cfa(walk.pc, walk.sp, rule.offset()),
        rule::SIGNAL | rule::FULL | rule::HOTSPOT | rule::V8 => return tables.rare(walk, rule, memory),
        rule::OUTERMOST => return Err(end::COMPLETE),
        rule::NONE => return Err(end::NO_UNWIND_INFO),
        _ => return Err(end::UNSUPPORTED),
    };
    if matches!(rule.kind(), rule::DEREF_FP | rule::DEREF_SP | rule::DEREF_SP_8) {
        cfa = read(memory, cfa)?.wrapping_add(if rule.kind() == rule::DEREF_SP_8 { 8 } else { 0 });
    }
    if !frame::grows(cfa, walk.sp, rule.fp(), walk.others_at != place::UNKNOWN) {
        return Err(end::BAD_FRAME);
    }
    let interrupted = |register| match walk.others_at {
        place::UNKNOWN => None,
        place::INTERRUPTED => tables.interrupted(register),
        at => memory.read_word(at.wrapping_add(signal_frame::register(register))),
    };
    let pc = frame::return_address(cfa, rule.fp(), interrupted, memory).ok_or(end::FAULT)?;
    let deref_fp = rule.kind() == rule::DEREF_FP;
    if rule.callee_saved_down() != 0 {
        walk.callee_saved_at = (if deref_fp { walk.fp } else { cfa.wrapping_sub(frame::PUSHED_BY_CALL) })
            .wrapping_sub(rule.callee_saved_down());
    }
    if deref_fp {
        walk.fp = read(memory, walk.fp)?;
    } else if rule.fp() != 0 {
        walk.fp = read(memory, cfa.wrapping_add_signed(rule.fp()))?;
    }
    arrive(walk, frame::code_address(pc), cfa)
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

/// The caller is found, its address of code without a signature.
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
    let fp = match full.fp {
        Operand::SAME => walk.fp,
        saved => value(saved, walk, cfa, tables, memory)?,
    };
    if full.callee_saved != Operand::SAME {
        let place = Operand::sum(full.callee_saved.base(), full.callee_saved.offset() as i32);
        let saved = full.callee_saved.is_word();
        walk.callee_saved_at = if saved { value(place, walk, cfa, tables, memory)? } else { place::UNKNOWN };
    }
    walk.fp = fp;
    arrive(walk, frame::code_address(pc), cfa)
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
        base::SP => walk.sp,
        base::FP => walk.fp,
        register @ 0..=base::LAST => {
            let saved = register == base::CALLEE_SAVED;
            match if saved { walk.callee_saved_at } else { walk.others_at } {
                place::UNKNOWN => return Err(end::UNSUPPORTED),
                place::INTERRUPTED => tables.interrupted(register).ok_or(end::UNSUPPORTED)?,
                at if saved => read(memory, at)?,
                at => read(memory, at.wrapping_add(signal_frame::register(register)))?,
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
    walk.pc = read(memory, at.wrapping_add(signal_frame::PC))?;
    walk.fp = read(memory, at.wrapping_add(signal_frame::FP))?;
    walk.sp = read(memory, at.wrapping_add(signal_frame::SP))?;
    walk.returned = 0;
    walk.callee_saved_at = at.wrapping_add(signal_frame::CALLEE_SAVED);
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
    let pc = frame::caller_of(cfa, &layout.eval_fp, memory)?;
    let fp = match layout.eval_fp {
        0 => NO_FRAME_POINTER,
        down => memory.read_word(cfa.wrapping_sub(u64::from(down)))?,
    };
    Some(NativeWalk { pc, sp: cfa, fp, returned: 1, ..NativeWalk::default() })
}

#[inline(always)]
fn read(memory: &impl Memory, address: u64) -> Result<u64, u8> {
    memory.read_word(address).ok_or(end::FAULT)
}
