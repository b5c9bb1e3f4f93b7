//! Kernel frames of a sample: by the kernel's own helper, and only where the kernel was interrupted.

use super::maps::count;
use super::scratch::Scratch;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::bpf_get_stack;
use aya_ebpf::programs::PerfEventContext;
use tracer_ebpf::arch::kernel;
use tracer_ebpf::wire::{MAX_KERNEL_FRAMES, lost};

/// Kernel frames, where the kernel was interrupted.
#[inline(always)]
pub(crate) fn kernel_frames(ctx: &PerfEventContext, scratch: &mut Scratch) {
    scratch.walk.cursor = 0;
    scratch.walk.kernel_sp = 0;
    if kernel::is_user_mode(interrupted::<{ kernel::MODE }>(ctx)) {
        return; // The helper would find that out too, far more slowly.
    }
    scratch.walk.kernel_sp = interrupted::<{ kernel::SP }>(ctx);
    let bytes = MAX_KERNEL_FRAMES * 8;
    // SAFETY: `words` has room for `bytes`; the helper writes no more.
    let got = unsafe { bpf_get_stack(ctx.as_ptr(), scratch.words.as_mut_ptr().cast(), bytes, 0) };
    if got < 0 {
        count(lost::KERNEL_STACKS);
        return;
    }
    let frames = got as u64 / 8;
    scratch.head.kernel = frames as u16;
    scratch.walk.cursor = frames;
}

/// A register of what was interrupted.
#[inline(always)]
fn interrupted<const AT: usize>(ctx: &PerfEventContext) -> u64 {
    // SAFETY: `struct bpf_perf_event_data` begins with the registers (include/uapi/linux/bpf_perf_event.h, v6.1).
    unsafe { core::ptr::read_volatile(ctx.as_ptr().cast::<u8>().add(AT).cast::<u64>()) }
}
