//! Sends a finished stack, and wakes user space where it must look at it soon.

use super::maps::is_always_on;
use super::rings::{NO_WAKEUP, Ring, WAKEUP, is_filling, output};
use super::scratch::Scratch;
use tracer_ebpf::wire::{SAMPLE_WORDS, SampleHead, end};

/// Sends the head and as many words as were filled, to the ring of whoever walked.
#[inline(always)]
pub(crate) fn send<R: Ring>(scratch: &mut Scratch) {
    let words = scratch.walk.cursor & (SAMPLE_WORDS as u64 - 1);
    let bytes = size_of::<SampleHead>() as u64 + words * 8;
    scratch.codes.send::<R>(&mut scratch.seen, scratch.head.head, R::CODES);
    let wakes = scratch.codes.wakes(scratch.head.head.at_ns) || is_filling::<R>() || is_unread(&scratch.head);
    let flags = if wakes { WAKEUP } else { NO_WAKEUP };
    // SAFETY: head and words lie next to each other in the map's value, which holds more than `bytes`.
    unsafe { output::<R>((&raw mut scratch.head).cast(), bytes, flags, R::STACKS) };
}

/// Whether an agent's user space has not read the mappings of the process, as it does once there was a
/// sample: it may be gone soon.
#[inline(always)]
fn is_unread(head: &SampleHead) -> bool {
    is_always_on() && head.native_end == end::NOT_READY
}
