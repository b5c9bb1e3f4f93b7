//! The two ring buffers: one that only the sampler writes, and one for all other programs.
//!
//! A sample may come in an NMI (hardware cycles), and an NMI that meets a ring buffer's lock held by its own CPU waits for it: up to 250 ms on
//! Linux 6.15 and later, with the machine standing still; before that its event is lost. So no other program may write `SAMPLES`, and the
//! sampler may write nothing else (`tests/offline/ebpf/contexts.rs` reads the calls and maps of the built programs). Launch stacks and waits are walked
//! like samples and go to `EVENTS`. docs/architecture.md has which program runs in which context. Leaves out who reads the rings in which order.

use super::maps::{count, settings};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_ringbuf_output, bpf_ringbuf_query};
use aya_ebpf::macros::map;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use aya_ebpf::maps::{PerCpuArray, RingBuf};
use core::ffi::c_void;
use tracer_ebpf::wire::{lost, push};

/// Samples, their captures and their code objects; its size is set by user space.
#[map]
static SAMPLES: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// All other events; its size is set by user space.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// How long pushes took, see `wire::push`; written only where the settings ask for it.
#[map]
static PUSH_TIMES: PerCpuArray<u64> = PerCpuArray::with_max_entries(push::COUNT, 0);

/// `BPF_RB_NO_WAKEUP`: user space looks at intervals.
pub(crate) const NO_WAKEUP: u64 = 1;
/// No flag: user space looks now, where it has seen all that came before.
pub(crate) const WAKEUP_ONCE: u64 = 0;
/// `BPF_RB_FORCE_WAKEUP`: user space looks now.
pub(crate) const WAKEUP: u64 = 2;
/// `BPF_RB_AVAIL_DATA`: bytes that wait for user space.
const AVAILABLE: u64 = 0;
/// `BPF_RB_RING_SIZE`.
const RING_SIZE: u64 = 1;

/// A ring buffer, and what is counted where an event finds no room in it.
pub(crate) trait Ring {
    /// A stack.
    const STACKS: u32;
    /// A raw capture.
    const RAWS: u32;
    /// Sights of code objects.
    const CODES: u32;
    /// Anything, because another CPU had the ring.
    const BUSY: u32;
    /// Where its push times begin.
    const PUSHES: u32;
    /// The map.
    fn map() -> *mut c_void;
}

/// The sampler's, in an NMI or in a timer's interrupt.
pub(crate) struct Samples;

/// Everybody else's.
pub(crate) struct Events;

impl Ring for Samples {
    const STACKS: u32 = lost::SAMPLES;
    const RAWS: u32 = lost::RAWS;
    const CODES: u32 = lost::CODES;
    const BUSY: u32 = lost::SAMPLES_BUSY;
    const PUSHES: u32 = push::SAMPLES;

    #[inline(always)]
    fn map() -> *mut c_void {
        (&raw const SAMPLES).cast_mut().cast()
    }
}

impl Ring for Events {
    const STACKS: u32 = lost::LAUNCH_ROOM;
    const RAWS: u32 = lost::LAUNCH_ROOM;
    const CODES: u32 = lost::LAUNCH_ROOM;
    const BUSY: u32 = lost::EVENTS_BUSY;
    const PUSHES: u32 = push::EVENTS;

    #[inline(always)]
    fn map() -> *mut c_void {
        (&raw const EVENTS).cast_mut().cast()
    }
}

/// Sends `bytes` bytes; false where it found no room, which is counted as `what`.
///
/// # Safety
/// `bytes` bytes from `from` on lie in one map's value, or on the stack.
#[inline(always)]
pub(crate) unsafe fn output<R: Ring>(from: *mut c_void, bytes: u64, flags: u64, what: u32) -> bool {
    let begun = push_begins();
    // SAFETY: as the caller says.
    let sent = unsafe { bpf_ringbuf_output(R::map(), from, bytes, flags) } == 0;
    push_ended::<R>(begun);
    if !sent {
        count(if is_full::<R>() { what } else { R::BUSY });
    }
    sent
}

/// Sends an event to `EVENTS`; as `output`.
#[inline(always)]
pub(crate) fn send_event<T>(event: &T, flags: u64, what: u32) -> bool {
    let from = core::ptr::from_ref(event).cast_mut().cast();
    // SAFETY: the event lies on the stack or in a map's value; the helper only reads it.
    unsafe { output::<Events>(from, size_of::<T>() as u64, flags, what) }
}

/// Room for an event in `EVENTS`, to be filled in its place; as `output`.
#[inline(always)]
pub(crate) fn reserve_event<T: 'static>(what: u32) -> Option<RingBufEntry<T>> {
    let entry = EVENTS.reserve::<T>(0);
    if entry.is_none() {
        count(if is_full::<Events>() { what } else { Events::BUSY });
    }
    entry
}

/// Whether user space should look now, for a quarter of the ring buffer is full.
#[inline(always)]
pub(crate) fn is_filling<R: Ring>() -> bool {
    let (waiting, size) = fill::<R>();
    waiting > size / 4
}

/// Whether more than half of the ring buffer is full. An event was lost for want of room then, and else as the helper did not get the lock, of which it
/// says the same (`-EAGAIN`): the reader may have taken some since.
#[inline(always)]
pub(crate) fn is_full<R: Ring>() -> bool {
    let (waiting, size) = fill::<R>();
    waiting > size / 2
}

#[inline(always)]
fn fill<R: Ring>() -> (u64, u64) {
    // SAFETY: both only read the ring buffer's counters, without a lock.
    unsafe { (bpf_ringbuf_query(R::map(), AVAILABLE), bpf_ringbuf_query(R::map(), RING_SIZE)) }
}

/// The time, where push times are asked for: the verifier knows the setting, and without it there is nothing here.
#[inline(always)]
fn push_begins() -> u64 {
    // SAFETY: only reads the clock.
    if settings().push_times != 0 { unsafe { bpf_ktime_get_ns() } } else { 0 }
}

#[inline(always)]
fn push_ended<R: Ring>(begun: u64) {
    if settings().push_times == 0 {
        return;
    }
    // SAFETY: only reads the clock.
    let took = unsafe { bpf_ktime_get_ns() } - begun;
    if let Some(most) = PUSH_TIMES.get_ptr_mut(R::PUSHES) {
        // SAFETY: this CPU's slot; a longer push that interrupts in the middle may be forgotten, its count is not.
        unsafe { *most = if took > *most { took } else { *most } };
    }
    let mut bucket = 1;
    for limit in push::LIMITS_NS {
        bucket += u32::from(took >= limit);
    }
    if let Some(pushes) = PUSH_TIMES.get_ptr_mut(R::PUSHES + bucket) {
        super::maps::add_one(pushes);
    }
}
