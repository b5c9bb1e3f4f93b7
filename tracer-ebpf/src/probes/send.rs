//! Sends a finished sample, and wakes user space where it must look at it soon.

use super::maps::{CPU_STATE, EVENTS, Scratch, count};
use super::sched::{NO_WAKEUP, WAKEUP};
use aya_ebpf::helpers::generated::bpf_ringbuf_output;
use tracer_ebpf::wire::{SAMPLE_WORDS, SampleHead, lost};

/// Sends the head and as many words as were filled.
#[inline(always)]
pub(crate) fn send(scratch: &mut Scratch) {
    let words = scratch.walk.cursor & (SAMPLE_WORDS as u64 - 1);
    let bytes = size_of::<SampleHead>() as u64 + words * 8;
    scratch.codes.send(&mut scratch.seen, scratch.head.head);
    let wakes = scratch.codes.is_new() && wake_is_due(scratch.head.head.at_ns);
    let flags = if wakes { WAKEUP } else { NO_WAKEUP };
    // SAFETY: head and words lie next to each other in the map's value, which holds more than `bytes`.
    unsafe { output(&raw mut scratch.head, bytes, flags, lost::SAMPLES) };
}

/// Sends an event that is longer than its head; false where it found no room, which is counted as `what`.
///
/// # Safety
/// `bytes` bytes from `from` on lie in one map's value.
#[inline(always)]
pub(super) unsafe fn output<T>(from: *mut T, bytes: u64, flags: u64, what: u32) -> bool {
    // SAFETY: as the caller says.
    let sent =
        unsafe { bpf_ringbuf_output((&raw const EVENTS).cast_mut().cast(), from.cast(), bytes, flags) } == 0;
    if !sent {
        count(what);
    }
    sent
}

/// Whether user space was woken long enough ago: code objects may be freed soon after they ran (modules while they are imported), and
/// must be read before. Every few milliseconds is enough, and costs little at any sampling rate.
#[inline(always)]
fn wake_is_due(now: u64) -> bool {
    const EVERY_NS: u64 = 3_000_000;
    let Some(state) = CPU_STATE.get_ptr_mut(0) else { return false };
    // SAFETY: the map's slot of this CPU; nothing else of this CPU writes this field.
    let state = unsafe { &mut *state };
    if now - state.woke_ns < EVERY_NS {
        return false;
    }
    state.woke_ns = now;
    true
}
