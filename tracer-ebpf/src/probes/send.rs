//! Sends a finished stack, and wakes user space where it must look at it soon.

use super::rings::{NO_WAKEUP, Ring, WAKEUP, is_filling, output};
use super::scratch::Scratch;
use tracer_ebpf::wire::{SAMPLE_WORDS, SampleHead};

/// Sends the head and as many words as were filled, to the ring of whoever walked.
#[inline(always)]
pub(crate) fn send<R: Ring>(scratch: &mut Scratch) {
    let words = scratch.walk.cursor & (SAMPLE_WORDS as u64 - 1);
    let bytes = size_of::<SampleHead>() as u64 + words * 8;
    scratch.codes.send::<R>(&mut scratch.seen, scratch.head.head);
    let wakes = scratch.codes.wakes(scratch.head.head.at_ns) || is_filling::<R>();
    let flags = if wakes { WAKEUP } else { NO_WAKEUP };
    // SAFETY: head and words lie next to each other in the map's value, which holds more than `bytes`.
    unsafe { output::<R>((&raw mut scratch.head).cast(), bytes, flags, R::STACKS) };
}
