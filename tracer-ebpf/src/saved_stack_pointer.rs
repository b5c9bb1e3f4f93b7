//! Code without unwind information whose caller needs no search: matrix kernels that move the stack pointer to scratch memory, by where they keep the old one,
//! functions that have nothing left to do but to return, and those whose return address is in a register still.
//!
//! No word near the stack pointer of the kernels is a return address. Leaves out what else is tried (`scan.rs`).

use crate::arch::call::{direct_target, is_in_plt, is_indirect, returns_at_once};
use crate::arch::dwarf::LINK;
use crate::arch::frame::code_address;
use crate::arch::matrix_kernel::{KEPT_AT, ONEDNN, ONEDNN_PUSHED, OPENBLAS, PAGE};
use crate::calls::{has_rule, leads_to};
use crate::memory::Memory;
use crate::native::{NativeWalk, Tables, place};
use crate::rows::base;
use crate::scan::{is_behind_call, is_behind_indirect, is_frame_pointer, is_pc, pc_at, stack_pointer_of};
use crate::wire::FIRST_PC;

/// The caller of a matrix kernel that is known by where it keeps its stack pointer, or of a function that only returns, or has not called yet.
#[inline(always)]
pub fn leave_kernel(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    if walk.returned != 0 {
        return leave_returning(walk, memory);
    }
    if let Some(caller) = leave_by_link(walk, tables, memory) {
        return Some(caller);
    }
    leave_openblas(walk, tables, memory).or_else(|| leave_onednn(walk, tables, memory))
}

/// The caller of code that was interrupted with its return address in a register: the call before that leads to this code, or anywhere, and is in
/// code with unwind information, which this has not. So it is no return address that an earlier call has left there.
#[inline(always)]
pub fn leave_by_link(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let link = LINK?;
    if walk.others_at != place::INTERRUPTED {
        return None;
    }
    let pc = tables.interrupted(link).map(code_address).filter(|&pc| is_pc(pc))?;
    let bytes = memory.read_word(pc - 8)?;
    let target = direct_target(bytes, pc);
    let caller = NativeWalk { pc, sp: walk.sp, fp: walk.fp, returned: 1, ..NativeWalk::default() };
    if target.is_some_and(|begin| is_in_plt(begin, walk.pc, memory)) {
        return Some(caller);
    }
    let is_called = match target {
        Some(begin) => leads_to(begin, walk.pc, tables, memory).is_some(),
        None => is_indirect(bytes),
    };
    if !is_called || has_rule(pc - 1, tables) != Some(true) {
        return None;
    }
    // It may have moved the stack pointer.
    let caller = NativeWalk { sp: stack_pointer_of(&caller, tables), ..caller };
    (tables.goes_on(caller, memory) != 0).then_some(caller)
}

/// The caller of a function that gives its frame back and returns as soon as its callee has (`arch::call::returns_at_once`). CPython's
/// trampolines for perf do so (Python/asm_trampoline.S, 3.12 and later).
#[inline(always)]
pub fn leave_returning(walk: &NativeWalk, memory: &impl Memory) -> Option<NativeWalk> {
    let (frame, is_popped) = returns_at_once(memory.read_word(walk.pc)?)?;
    let fp = if is_popped { memory.read_word(walk.sp)? } else { walk.fp };
    let pc = pc_at(walk.sp.wrapping_add(frame), memory)?;
    Some(NativeWalk { pc, fp, sp: walk.sp.wrapping_add(frame + 8), ..*walk })
}

/// The caller of one of OpenBLAS' kernels: a register and the stack pointer have the distance that only its first instructions make.
#[inline(always)]
pub fn leave_openblas(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    if !walk.sp.is_multiple_of(PAGE) || walk.returned != 0 || walk.callee_saved_at != place::INTERRUPTED {
        return None;
    }
    let kept = tables.interrupted(base::CALLEE_SAVED)?;
    let is_kernel = |&(_, scratch): &(u64, u64)| kept.wrapping_sub(scratch) & !(PAGE - 1) == walk.sp;
    let (frame, _) = OPENBLAS.into_iter().find(is_kernel)?;
    let sp = kept.wrapping_add(frame + 8);
    let pc = memory.read_word(kept.wrapping_add(frame))?;
    if !is_behind_call(pc, memory) {
        return None;
    }
    let fp = memory.read_word(kept.wrapping_add(8))?;
    Some(NativeWalk { pc, sp, fp, returned: 1, callee_saved_at: kept, others_at: place::UNKNOWN })
}

/// The caller of one of oneDNN's matrix products, also in XLA and TensorFlow: where the old stack pointer is kept, six words below the return address of
/// an indirect call from which two more steps succeed.
#[inline(always)]
pub fn leave_onednn(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    if !walk.sp.is_multiple_of(PAGE) || walk.returned != 0 {
        return None;
    }
    ONEDNN.into_iter().find_map(|place| {
        let kept = memory.read_word(walk.sp.wrapping_add(place)).filter(|kept| kept % 8 == 0)?;
        let pc = memory.read_word(kept.wrapping_add(ONEDNN_PUSHED)).filter(|&pc| is_pc(pc))?;
        let sp = kept.wrapping_add(ONEDNN_PUSHED + 8);
        let first = memory.read_word(kept.wrapping_add(ONEDNN_PUSHED - 8))?;
        let second = memory.read_word(kept.wrapping_add(ONEDNN_PUSHED - 16))?;
        let fp = if is_frame_pointer(first, sp) { first } else { second };
        let caller = NativeWalk { pc, sp, fp, returned: 1, ..NativeWalk::default() };
        (is_behind_indirect(pc, memory) && tables.goes_on(caller, memory) >= 2).then_some(caller)
    })
}

/// Where the stack was before code without unwind information moved the stack pointer to a buffer of its own.
///
/// For kernels that keep it where oneDNN's for AVX-512 do, in scratch memory that is often not on the stack, but push something else
/// (`leave_onednn`). Only a place to scan from: what is found there has to hold as anywhere.
#[inline(always)]
pub fn saved_stack_pointer(walk: &NativeWalk, memory: &impl Memory) -> Option<u64> {
    if !walk.sp.is_multiple_of(PAGE) {
        return None;
    }
    memory.read_word(walk.sp.wrapping_add(KEPT_AT?)).filter(|sp| sp % 8 == 0 && *sp >= FIRST_PC)
}
