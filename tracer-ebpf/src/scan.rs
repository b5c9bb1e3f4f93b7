//! Finds the caller of code without unwind information: where a frame pointer says, or by a scan of the stack.
//!
//! What is found is either proved, or one of several that could be: then it is a guess, and whoever asks has to say so in the stack. A
//! return address is proved where it follows a direct call that leads to the callee, or where a frame pointer names it and nothing below
//! it could be another. Leaves out where scans begin and what becomes of a gap (`probes/scan.rs` and `unwind/stack_copy.rs`).

use crate::arch::call::{INSTRUCTION, USER_BITS, direct_target, is_goexit, is_indirect};
use crate::arch::frame::{ENDS_AT_RETURN_ADDRESS, POINTS_BELOW, code_address, stack_pointer};
use crate::calls::{has_rule, leads_to, makes_frame_pointer};
use crate::memory::Memory;
use crate::native::{NO_FRAME_POINTER, NativeWalk, Tables, caller};
use crate::rows::rule;
use crate::wire::{FIRST_PC, end};

/// Words above the stack pointer that are looked through for a return address where code has no unwind information.
pub const SCAN_WORDS: u32 = 64;
/// Words that are looked through for all frames of one stack.
pub const MAX_SCANNED: u32 = 1024;
/// Frames of a candidate's chain in which a contradiction is looked for.
pub const CHAIN: u32 = 8;
/// How far above the stack pointer, or above the last one, a frame pointer may lie.
const NEAR: u64 = 1 << 16;

/// Callers that a scan has come across.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Candidates {
    /// The caller by the frame pointer; its `pc` is 0 where there is none.
    frame: NativeWalk,
    /// One of `by_frame`, and where the call before it leads if it leads to the callee.
    frame_kind: u64,
    frame_target: u64,
    /// The caller whose direct call leads closest to the callee; its `pc` is 0 where there is none.
    direct: NativeWalk,
    /// Where that leads.
    target: u64,
    /// The first behind an indirect call from which two more steps succeed; its `pc` is 0 where there is none.
    indirect: NativeWalk,
    /// Return addresses of indirect calls, which could be the caller's too: those below the direct call's, below the frame pointer's, and all.
    doubts_below: u64,
    doubts_in_frame: u64,
    doubts: u64,
}

/// What the caller by a frame pointer rests on.
mod by_frame {
    /// A register that points to the stack, where some call's return address is.
    pub(super) const WEAK: u64 = 1;
    /// An indirect call's return address, and the caller's own frame pointer leads on.
    pub(super) const CHAIN: u64 = 2;
    /// A direct call that leads to the callee, or the first frame of a goroutine.
    pub(super) const CALL: u64 = 3;
    /// No call ends at the return address (Java's interpreter pushes it and jumps), but frame pointers lead on to two more frames.
    pub(super) const LONG: u64 = 4;
}

/// What a scan has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The caller.
    Proved(NativeWalk),
    /// One that may be; frames may be missing before it.
    Guessed(NativeWalk),
}

/// What the frame pointer says, before the words are looked at.
#[inline(always)]
pub fn begin(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Candidates {
    let mut found = Candidates::default();
    if let Some((frame, kind, target)) = by_frame_pointer(walk, tables, memory) {
        (found.frame, found.frame_kind, found.frame_target) = (frame, kind, target);
    }
    found
}

/// The caller by the frame pointer without a scan, and whether it is proved: the call leads to a function that makes a frame pointer before it
/// calls anything. Behind a mark, what `by_frame::LONG` says does too.
#[inline(always)]
pub fn follow_frame_pointer(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<(NativeWalk, bool)> {
    if walk.returned == 0 || has_rule(walk.at(), tables) != Some(false) {
        return None;
    }
    let (frame, kind, target) = by_frame_pointer(walk, tables, memory)?;
    let proved = kind == by_frame::CALL && makes_frame_pointer(target, memory);
    (proved || kind == by_frame::LONG).then_some((frame, proved))
}

/// The caller whose return address lies above where the frame pointer points, one of `by_frame`, and where the call before it leads if to the callee.
///
/// It is taken for one above the stack pointer and near, where a return address follows it, and where what it points to is
/// another one further up, or steps succeed by unwind information. Code that uses it for something else may have it point to its own
/// locals, in which earlier calls have left addresses.
#[inline(always)]
fn by_frame_pointer(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<(NativeWalk, u64, u64)> {
    if !is_frame_pointer(walk.fp, walk.sp) {
        return None;
    }
    let fp = memory.read_word(walk.fp)?;
    let pc = pc_at(walk.fp.wrapping_add(8), memory)?;
    let mut frame = NativeWalk { pc, sp: walk.fp.wrapping_add(16), fp, returned: 1, ..NativeWalk::default() };
    if !ENDS_AT_RETURN_ADDRESS {
        frame.sp = stack_pointer_of(&frame, tables);
    }
    let has_rule = has_rule(pc - 1, tables)?;
    let leads_on = if has_rule {
        tables.goes_on(frame, memory) != 0
    } else {
        is_frame_pointer(fp, frame.sp)
            && is_behind_call(code_address(memory.read_word(fp.wrapping_add(8))?), memory)
    };
    let bytes = memory.read_word(pc - 8)?;
    if leads_on || !has_rule && fp == 0 {
        if let Some(target) = direct_target(bytes, pc)
            && let Some(begin) = leads_to(target, walk.at(), tables, memory)
        {
            return Some((frame, by_frame::CALL, begin));
        }
        if !has_rule && fp == 0 && is_goexit(pc, bytes, memory) {
            return Some((frame, by_frame::CALL, FIRST_PC));
        }
        if is_indirect(bytes) || direct_target(bytes, pc).is_some() {
            let is_chain = is_indirect(bytes) && leads_on;
            return Some((frame, if is_chain { by_frame::CHAIN } else { by_frame::WEAK }, 0));
        }
    }
    let is_long =
        if has_rule { leads_on && is_of_hotspot(pc - 1, tables) } else { is_long(frame, tables, memory) };
    is_long.then_some((frame, by_frame::LONG, 0))
}

/// Whether a HotSpot made this code: its interpreter returns to places behind no call.
#[inline(always)]
fn is_of_hotspot(pc: u64, tables: &mut impl Tables) -> bool {
    tables.rule(pc).is_ok_and(|rule| rule.kind() == rule::HOTSPOT)
}

/// Whether frame pointers lead on from here through code without unwind information, to code that has some or two frames further.
#[inline(always)]
fn is_long(mut frame: NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    for _ in 0..2 {
        if !is_frame_pointer(frame.fp, frame.sp) {
            return false;
        }
        let next = pc_at(frame.fp.wrapping_add(8), memory);
        match next.and_then(|pc| has_rule(pc - 1, tables)) {
            Some(true) => return true,
            Some(false) => (),
            None => return false,
        }
        let Some(fp) = memory.read_word(frame.fp) else { return false };
        frame = NativeWalk { sp: frame.fp.wrapping_add(16), fp, ..frame };
    }
    true
}

/// Whether this may be the return address of a call of any kind.
#[inline(always)]
pub(crate) fn is_behind_call(pc: u64, memory: &impl Memory) -> bool {
    is_pc(pc)
        && memory
            .read_word(pc - 8)
            .is_some_and(|bytes| is_indirect(bytes) || direct_target(bytes, pc).is_some())
}

/// Whether this may be a frame pointer: above the stack pointer, near, and aligned.
#[inline(always)]
pub(crate) fn is_frame_pointer(fp: u64, sp: u64) -> bool {
    let highest = fp.wrapping_add(POINTS_BELOW);
    highest >= sp && highest - sp < NEAR && fp.is_multiple_of(8)
}

/// Whether this may be a return address: most of what lies on a stack is small numbers and floating-point ones.
#[inline(always)]
pub(crate) const fn is_pc(pc: u64) -> bool {
    pc >= FIRST_PC && pc >> USER_BITS == 0 && pc.is_multiple_of(INSTRUCTION)
}

/// What may be a return address there.
#[inline(always)]
pub(crate) fn pc_at(address: u64, memory: &impl Memory) -> Option<u64> {
    memory.read_word(address).map(code_address).filter(|&pc| is_pc(pc))
}

/// The stack pointer of a caller whose frame pointer is known, and of whose stack pointer it is known that it is not lower: that, or what its rule
/// says of both, where it does. Code without a rule is left by its frame pointer, and needs none.
#[inline(always)]
pub(crate) fn stack_pointer_of(caller: &NativeWalk, tables: &mut impl Tables) -> u64 {
    let by_rule = match tables.rule(caller.at()) {
        Ok(found) if found.kind() == rule::SP => stack_pointer(caller.fp, found.fp(), found.offset()),
        _ => None,
    };
    by_rule.filter(|&sp| sp >= caller.sp && is_frame_pointer(caller.fp, sp)).unwrap_or(caller.sp)
}

/// Looks at the word at `address`; true where no further one can be the caller's.
#[inline(always)]
pub fn look(
    walk: &NativeWalk,
    address: u64,
    found: &mut Candidates,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> bool {
    let in_frame = found.frame.pc != 0 && address.wrapping_add(8) < found.frame.sp;
    if found.frame_kind == by_frame::CALL && !in_frame {
        return true;
    }
    let Some(pc) = pc_at(address, memory) else { return false };
    if tables.known_none(pc - 1).is_some_and(|code| code != end::NO_UNWIND_INFO) {
        return false;
    }
    let Some(has_rule) = has_rule(pc - 1, tables) else { return false };
    let Some(bytes) = memory.read_word(pc - 8) else { return false };
    let begin = direct_target(bytes, pc).and_then(|to| leads_to(to, walk.at(), tables, memory)).unwrap_or(0);
    let (direct, indirect) = (begin > found.target, begin == 0 && is_indirect(bytes));
    found.doubts += u64::from(indirect);
    found.doubts_in_frame += u64::from(indirect && in_frame);
    if !direct && (!indirect || found.indirect.pc != 0 || !has_rule) {
        return false;
    }
    let needed = if direct { 1 } else { 2 };
    let Some(next) = caller_at(walk, address, pc, has_rule, needed, tables, memory) else { return false };
    if direct {
        (found.direct, found.target, found.doubts_below) = (next, begin, found.doubts);
    } else {
        found.indirect = next;
    }
    false
}

/// The caller whose return address lies there. With unwind information so many steps succeed from it: the callee's first push is its
/// caller's `rbp`, or else the callee leaves it alone (oneDNN's barrier pushes something else).
#[inline(always)]
fn caller_at(
    walk: &NativeWalk,
    address: u64,
    pc: u64,
    has_rule: bool,
    steps: u32,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let sp = address.wrapping_add(8);
    let mut left = NativeWalk { pc, sp, fp: walk.fp, returned: 1, ..NativeWalk::default() };
    let below = if address > walk.sp { memory.read_word(address.wrapping_sub(8))? } else { 0 };
    let mut pushed =
        NativeWalk { fp: if below == 0 && walk.fp != 0 { NO_FRAME_POINTER } else { below }, ..left };
    if !ENDS_AT_RETURN_ADDRESS {
        pushed.sp = stack_pointer_of(&pushed, tables);
        left.sp = stack_pointer_of(&left, tables);
    }
    if !has_rule {
        let fp = if is_frame_pointer(below, sp) {
            below
        } else if is_frame_pointer(walk.fp, sp) {
            walk.fp
        } else {
            NO_FRAME_POINTER
        };
        return Some(NativeWalk { fp, ..left });
    }
    if address > walk.sp && tables.goes_on(pushed, memory) >= steps {
        return Some(pushed);
    }
    (tables.goes_on(left, memory) >= steps).then_some(left)
}

/// One of the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The caller by the frame pointer.
    Frame,
    /// That by a direct call.
    Direct,
    /// That by an indirect call.
    Indirect,
}

impl Candidates {
    /// Copies of it would not fit on the stack of a BPF program.
    #[inline(always)]
    pub const fn get(&self, which: Which) -> &NativeWalk {
        match which {
            Which::Frame => &self.frame,
            Which::Direct => &self.direct,
            Which::Indirect => &self.indirect,
        }
    }
}

/// What the words that were looked at say together: the caller, and whether it is proved.
#[inline(always)]
pub fn decide(
    walk: &NativeWalk,
    found: &Candidates,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<(Which, bool)> {
    let either = |sure: bool, which: Which| (sure || found.get(which).pc != 0).then_some((which, sure));
    if found.frame_kind == by_frame::CALL && found.frame_target >= found.target {
        let makes_one = || walk.returned == 1 && makes_frame_pointer(found.frame_target, memory);
        return either(found.doubts == 0 || makes_one(), Which::Frame);
    }
    let is_above = found.direct.pc != 0 && found.direct.sp > found.frame.sp;
    if found.frame_kind == by_frame::CHAIN && (found.direct.pc == 0 || is_above) {
        // No word below is a return address: the frame pointer is the callee's own. A direct call to the callee further up is the next in
        // the chain, or else it is that which called the callee.
        let near = found.frame.sp.wrapping_sub(walk.sp) <= u64::from(SCAN_WORDS) * 8;
        let fits = !is_above || leads_up_to(found.frame.fp, found.direct.sp, memory);
        if found.doubts_in_frame == 0 || found.indirect.pc == 0 {
            return either(found.doubts_in_frame == 0 && near && fits, Which::Frame);
        }
    }
    if found.direct.pc != 0 {
        let sure = found.doubts_below == 0
            || found.indirect.pc != 0
                && found.indirect.sp < found.direct.sp
                && tables.leads_through(&found.indirect, &found.direct, memory)
                    == Some(found.doubts_below - 1);
        return either(sure, Which::Direct);
    }
    either(false, if found.indirect.pc != 0 { Which::Indirect } else { Which::Frame })
}

/// Whether one of the frames of a chain of frame pointers ends at this stack pointer.
#[inline(always)]
fn leads_up_to(mut fp: u64, sp: u64, memory: &impl Memory) -> bool {
    for _ in 0..CHAIN {
        if fp.wrapping_add(16) >= sp {
            return fp.wrapping_add(16) == sp;
        }
        fp = memory.read_word(fp).unwrap_or(u64::MAX >> 1);
    }
    false
}

/// Looks for the caller in one go; the probes do it in steps.
pub fn find_caller(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<Found> {
    let mut found = begin(walk, tables, memory);
    let mut words = (0..u64::from(SCAN_WORDS)).map(|word| walk.sp.wrapping_add(8 * word));
    let _last = words.find(|&address| look(walk, address, &mut found, tables, memory));
    let (which, sure) = decide(walk, &found, tables, memory)?;
    let caller = *found.get(which);
    Some(if sure { Found::Proved(caller) } else { Found::Guessed(caller) })
}

/// How many more steps succeed from there, two at most; the first one may end at code without unwind information, or be the last.
#[inline(always)]
pub(crate) fn goes_on(mut trial: NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> u32 {
    match caller(&mut trial, tables, memory) {
        Ok(_) => (),
        Err(end::COMPLETE) => return 1,
        Err(_) => return 0,
    }
    match caller(&mut trial, tables, memory) {
        Ok(_) | Err(end::COMPLETE) => 2,
        Err(end::NO_UNWIND_INFO) => 1,
        Err(_) => 0,
    }
}

/// How many indirect calls the chain of `from` has before it comes to the return address of `to`, at the same place. That follows a direct
/// call to the callee, so that the frames before it are left from earlier calls; `None` where the chain does not come there.
#[inline(always)]
pub(crate) fn leads_through(
    from: &NativeWalk,
    to: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<u64> {
    let (mut trial, mut indirect) = (*from, 0);
    for _ in 0..CHAIN {
        caller(&mut trial, tables, memory).ok()?;
        if trial.sp == to.sp && trial.pc == to.pc {
            return Some(indirect);
        }
        indirect += u64::from(is_behind_indirect(trial.pc, memory));
    }
    None
}

/// Whether an indirect call ends at `pc`.
#[inline(always)]
pub fn is_behind_indirect(pc: u64, memory: &impl Memory) -> bool {
    memory.read_word(pc.wrapping_sub(8)).is_some_and(is_indirect)
}

/// Whether code without unwind information is where its stack begins: its caller by unwind information or by a frame pointer has left 0 in
/// it (System V ABI), and no return address was found. So musl's threads and Go's begin.
#[inline(always)]
pub const fn is_outermost(walk: &NativeWalk) -> bool {
    walk.fp == 0 && walk.returned == 1
}
