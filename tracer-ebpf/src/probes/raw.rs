//! Raw captures: the user registers and a copy of the user stack, for user space to unwind where the probes cannot.
//!
//! A capture is an event of its own, sent just before its sample. The copy goes by whole pages from the page of the stack pointer
//! upwards: one read of all would fail for every stack that is shorter or has a hole, and constant sizes at
//! constant places are what the verifier follows without a word. Leaves out kernel and Python frames, which the sample has.

use super::registers::user_registers;
use super::rings::{Events, NO_WAKEUP, Ring, Samples, WAKEUP, is_filling, output};
use super::scratch::{self, scratch_offset};
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use tracer_ebpf::wire::{EventHead, PAGE_BYTES, RAW_PAGES, RawHead, end, kind, register};

/// Where a CPU builds a raw capture.
#[repr(C)]
struct RawScratch {
    head: RawHead,
    stack: [u8; RAW_PAGES * PAGE_BYTES],
}

/// Raw captures by CPU; its size is set by user space to the CPUs that there may ever be.
#[map]
static RAW: Array<RawScratch> = Array::with_max_entries(1, 0);

/// Whether user space can say more about a walk that ended so: a table was not there yet, a mapping was not known yet, or a page of a
/// file was not in memory.
#[inline(always)]
pub(crate) fn is_wanted(native_end: u8) -> bool {
    is_left_to_user_space(native_end) || native_end == end::FAULT
}

/// Whether a gap is not to be bridged here, because user space knows what lies in it.
#[inline(always)]
pub(crate) fn is_left_to_user_space(native_end: u8) -> bool {
    matches!(native_end, end::NOT_READY | end::UNMAPPED)
}

/// Sends the capture that belongs to the sample in the making. A function with a global name, which the verifier looks at once.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn capture_sample() -> u32 {
    if let Some(scratch) = scratch::scratch() {
        send::<Samples>(&scratch.head.head);
    }
    0
}

/// The same for the stack of a launch, which goes to the other ring: a sample may interrupt it.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn capture_launch() -> u32 {
    if let Some(scratch) = scratch::scratch() {
        send::<Events>(&scratch.head.head);
    }
    0
}

#[inline(always)]
fn send<R: Ring>(sample: &EventHead) {
    let Some(scratch) = scratch() else { return };
    scratch.head.head = EventHead { kind: kind::RAW, ..*sample };
    // Where they are being saved there was no walk that could end in want of a capture.
    if user_registers(&mut scratch.head.registers, 0).is_err() {
        return;
    }
    scratch.head.base = scratch.head.registers[register::SP] & !(PAGE_BYTES as u64 - 1);
    let bytes = copy(scratch);
    let flags = if is_filling::<R>() { WAKEUP } else { NO_WAKEUP };
    // SAFETY: head and stack lie next to each other in the map's value, which holds more than is sent.
    unsafe {
        output::<R>((&raw mut scratch.head).cast(), size_of::<RawHead>() as u64 + bytes, flags, R::RAWS)
    };
}

/// Copies the pages that can be read; gives their bytes from the first to the last of them. A page that a big frame has not touched is not
/// in memory, and its caller lies behind it: such pages are left as zeros, and are no part of `RawHead::pages`.
#[inline(always)]
fn copy(scratch: &mut RawScratch) -> u64 {
    let (bytes, pages) = (&raw mut scratch.head.bytes, &raw mut scratch.head.pages);
    // SAFETY: both are in this CPU's scratch. Written as memory, for of a number in memory the verifier does not follow each value.
    unsafe {
        bytes.write_volatile(0);
        pages.write_volatile(0);
    }
    for page in 0..RAW_PAGES {
        let offset = page * PAGE_BYTES;
        let from = scratch.head.base.wrapping_add(offset as u64);
        // SAFETY: the helper checks the user address, and fails and writes zeros rather than faults; the array has room for `RAW_PAGES`.
        let failed = unsafe {
            let to = scratch.stack.as_mut_ptr().add(offset);
            bpf_probe_read_user(to.cast(), PAGE_BYTES as u32, from as *const _)
        };
        if failed == 0 {
            // SAFETY: as above.
            unsafe {
                bytes.write_volatile((offset + PAGE_BYTES) as u32);
                pages.write_volatile(pages.read_volatile() | 1 << page);
            }
        }
    }
    // SAFETY: as above.
    u64::from(unsafe { bytes.read_volatile() }).min((RAW_PAGES * PAGE_BYTES) as u64)
}

/// This CPU's scratch.
#[inline(always)]
fn scratch() -> Option<&'static mut RawScratch> {
    // SAFETY: reads the CPU number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // SAFETY: one program at a time uses this CPU's value: perf events do not nest, and launches have values of their own.
    RAW.get_ptr_mut(cpu + scratch_offset()).map(|scratch| unsafe { &mut *scratch })
}
