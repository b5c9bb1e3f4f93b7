//! Takes a stack sample: kernel frames by the kernel's own helper, Python frames from the thread state, native frames by row tables.
//!
//! The state of the walks is in the scratch map, and each step is a function with a global name: the verifier looks at it once, whatever
//! the depth, and a walk is a plain loop over its step (`repeat`). A walk that cannot go on says why; the sample is sent all the same.

use super::kernel_frames::kernel_frames;
use super::last_process::know;
use super::maps::{COUNTDOWN, count, current, head, settings};
use super::native_walk::native_frames;
use super::python_walk::python_frames;
use super::ranges;
use super::raw;
use super::rings::Samples;
use super::scratch::{pause, resume, scratch};
use super::send::send;
use super::thread_context;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::bpf_perf_event_data;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_task, bpf_probe_read_kernel};
use aya_ebpf::programs::PerfEventContext;
use tracer_ebpf::wire::{SampleHead, end, kind, lost};

/// Takes a sample of `current` if this tick of the event is one and `current` a target.
#[inline(always)]
pub(crate) fn take(ctx: &PerfEventContext) {
    if !is_sample(ctx) {
        return;
    }
    let (pid, tid) = current();
    if tid == 0 {
        return;
    }
    let paused = pause();
    sample(ctx, pid, tid);
    resume(paused);
}

/// Whether this tick is a sample. Other ticks touch nothing but this.
#[inline(always)]
fn is_sample(ctx: &PerfEventContext) -> bool {
    let Some(countdown) = COUNTDOWN.get_ptr_mut(0) else { return true };
    // SAFETY: this CPU's value, which only this program changes while the event is open, and perf events do not nest; user space may set it
    // anew, which at worst takes or passes a tick more. The helper changes numbers of this CPU without a lock: what interrupts another
    // program's draw may repeat a number. The kernel reads the period out of what it calls such a program with.
    unsafe {
        let data = ctx.as_ptr().cast::<bpf_perf_event_data>();
        let period = core::ptr::read_volatile(&raw const (*data).sample_period);
        (*countdown).is_sample(period, || bpf_get_prandom_u32())
    }
}

#[inline(always)]
fn sample(ctx: &PerfEventContext, pid: u32, tid: u32) {
    if begin_sample(pid, tid) == 0 {
        return;
    }
    let Some(begun) = scratch() else { return };
    kernel_frames(ctx, begun);
    let python_end = python_frames();
    let native_end = native_frames();
    let Some(done) = scratch() else { return };
    done.head.python_end = python_end as u8;
    done.head.native_end = native_end as u8;
    if done.head.native_end == end::NOTHING || is_cut(&done.head) && changes_program() {
        // There is the kernel's work, and nothing else: a worker of io_uring runs no Python though it is in the thread's memory, and in the
        // midst of an exec the memory is the new program's already, while what is known of it is the old one's.
        done.walk.cursor = u64::from(done.head.kernel);
        (done.head.python, done.head.native) = (0, 0);
        (done.head.python_end, done.head.native_end) = (end::NOTHING, end::NOTHING);
        (done.head.recovered, done.head.guessed, done.head.guess_depth) = (0, 0, 0);
    }
    if done.head.native_end != end::NOTHING {
        thread_context::add();
    }
    let Some(done) = scratch() else { return };
    if raw::is_wanted(done.head.native_end) {
        raw::capture_sample();
    }
    let Some(done) = scratch() else { return };
    send::<Samples>(done);
}

/// Whether frames are missing that could not be read, or not be understood.
#[inline(always)]
fn is_cut(head: &SampleHead) -> bool {
    let whole = matches!(head.native_end, end::COMPLETE | end::NOTHING | end::NOT_READY | end::TOO_DEEP);
    !whole || !matches!(head.python_end, end::COMPLETE | end::NOTHING | end::NO_INTERPRETER)
}

/// Whether `current` is executing another program: between the change of its memory and the hook on that (`on_exec`) lie some tenths of a
/// millisecond.
#[inline(always)]
fn changes_program() -> bool {
    let bit = settings().task_in_execve;
    if bit == 0 {
        return false;
    }
    // SAFETY: the helper checks the address.
    let byte = unsafe {
        let task = bpf_get_current_task() as *const u8;
        bpf_probe_read_kernel(task.add((bit / 8) as usize))
    };
    byte.is_ok_and(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Writes the head of a sample; 0 where the process is no target. A function of its own, for what it has on the stack must not be there while the
/// walks run: before Linux 6.13 all functions that have called each other share 512 bytes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_sample(pid: u32, tid: u32) -> u32 {
    let Some(begun) = scratch() else { return 0 };
    if !know(&mut begun.walk, pid) {
        return 0;
    }
    count(lost::TAKEN);
    begun.head = SampleHead::default();
    begun.head.head = head(kind::SAMPLE, pid, tid);
    begun.head.range = ranges::path_of(tid);
    begun.codes.begin(begun.head.head.at_ns);
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    1
}
