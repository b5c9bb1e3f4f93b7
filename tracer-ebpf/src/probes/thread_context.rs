//! The record of the span that a thread works for, put behind the frames of its stack.
//!
//! Two reads of the thread's memory and a copy, all bounded. Leaves out where the variable lies (user space writes it) and what is in a record.

use super::maps::{CONTEXTS, settings};
use super::registers::thread_pointer;
use super::scratch::scratch;
use super::user_memory::UserMemory;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use core::arch::asm;
use tracer_ebpf::thread_context::{HEAD_BYTES, MOST_BYTES, VALID};
use tracer_ebpf::wire::SAMPLE_WORDS;

/// Words that a record takes.
pub(super) const RECORD_WORDS: usize = MOST_BYTES.div_ceil(8);
/// The word of a record that has, behind the span, whether it is valid and the bytes of its attributes.
const STATE_WORD: usize = 3;
/// What is left of a record behind its head, and a mask for it.
const MOST_ATTRIBUTES: u32 = (MOST_BYTES - HEAD_BYTES) as u32;
const ATTRIBUTES_MASK: u32 = 1023;

/// Puts the thread's record behind what was walked, where ranges are recorded and there is one.
#[inline(always)]
pub(super) fn add() {
    if settings().ranges != 0 {
        add_record();
    }
}

/// The same in a function of its own, for the verifier and for the stack; the result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_record() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
    if at >= SAMPLE_WORDS - RECORD_WORDS {
        return 0;
    }
    // SAFETY: behind `at` there is room for a record.
    let bytes = unsafe { take(scratch.words.as_mut_ptr().add(at), scratch.head.head.pid) };
    scratch.head.context = bytes as u16;
    scratch.walk.cursor = at as u64 + u64::from(bytes.div_ceil(8));
    0
}

/// Puts the record of the thread, which is here, at a place; gives its bytes, 0: there is none.
///
/// # Safety
/// There is room for `RECORD_WORDS`, and the verifier sees room for `HEAD_BYTES` and `ATTRIBUTES_MASK` bytes.
#[inline(always)]
pub(super) unsafe fn take(place: *mut u64, pid: u32) -> u32 {
    // SAFETY: the value is copied at once.
    let Some(&variable) = (unsafe { CONTEXTS.get(&pid) }) else { return 0 };
    let record = thread_pointer().and_then(|pointer| variable.record(pointer, &UserMemory));
    let Some(record) = record else { return 0 };
    // SAFETY: the caller's; the helper checks the user address and fails rather than faults.
    let state = unsafe {
        if bpf_probe_read_user(place.cast(), HEAD_BYTES as u32, record as *const _) != 0 {
            return 0;
        }
        place.add(STATE_WORD).cast::<u32>().read()
    };
    if state as u8 != VALID {
        return 0;
    }
    let mut attributes = (state >> 16).min(MOST_ATTRIBUTES);
    // SAFETY: a mask that changes nothing, for the verifier; hidden from the compiler, which knows that.
    unsafe { asm!("{0} &= {1}", inout(reg) attributes, const ATTRIBUTES_MASK) };
    // SAFETY: as above.
    let failed = unsafe {
        let (to, from) = (place.cast::<u8>().add(HEAD_BYTES), record.wrapping_add(HEAD_BYTES as u64));
        bpf_probe_read_user(to.cast(), attributes, from as *const _)
    };
    HEAD_BYTES as u32 + if failed == 0 { attributes } else { 0 }
}
