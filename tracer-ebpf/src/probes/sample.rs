//! Takes a stack sample: kernel frames by the kernel's own helper, Python frames from the thread state, native frames by row tables.
//!
//! The state of the walks is in the scratch map, and each step is a function with a global name: the verifier looks at it once, whatever
//! the depth, and a walk is a plain loop over its step (`repeat`). A walk that cannot go on says why; the sample is sent all the same.

use super::gpu_stack;
use super::kernel_frames::kernel_frames;
use super::last_process::{LastProcess, know};
use super::maps::{COUNTDOWN, SCRATCH, Scratch, count, current, head, settings};
use super::native_walk::native_frames;
use super::python_walk::python_frames;
use super::raw;
use super::rings::Samples;
use super::send::send;
use super::tables::ProcessTables;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_get_smp_processor_id, bpf_probe_read_kernel,
};
use aya_ebpf::programs::PerfEventContext;
use tracer_ebpf::native::{Candidates, NativeWalk};
use tracer_ebpf::python::PythonWalk;
use tracer_ebpf::wire::{PythonLayout, SampleHead, end, kind, lost, register};

/// The state of both walks, in the scratch map.
#[repr(C)]
pub(crate) struct Walks {
    pub(super) process: LastProcess,
    /// Of `process`, where it has an interpreter.
    pub(super) layout: PythonLayout,
    pub(super) python: PythonWalk,
    pub(super) fsbase: u64,
    /// A thread state that is being looked at, then the one that was found.
    pub(super) thread: u64,
    pub(super) native: NativeWalk,
    /// A walk that takes a step by a rule that few frames have.
    pub(super) rare: NativeWalk,
    /// A walk that a scan tries.
    pub(super) trial: NativeWalk,
    /// The registers with which user mode was left.
    pub(super) registers: [u64; register::COUNT],
    /// The kernel's stack pointer where the kernel was interrupted, else 0.
    pub(super) kernel_sp: u64,
    /// The stack pointer at which the native walk began.
    pub(super) lowest: u64,
    /// Of `process`, where it has an address space.
    pub(crate) tables: ProcessTables,
    /// Words of frames so far.
    pub(crate) cursor: u64,
    /// What a scan has come across, and the words that scans have looked at so far.
    pub(super) candidates: Candidates,
    pub(super) scanned: u64,
    /// Anchors of Python runs, innermost first, and how many there are; then the one that is next for native frames.
    pub(super) anchors: [u64; MAX_ANCHORS],
    pub(super) anchor: u64,
}

/// Anchors that are kept: a power of two. Deeper nesting of interpreters is not bridged.
pub(super) const MAX_ANCHORS: usize = 32;
/// Frames that one call of a step takes: calls cost, and so does what the verifier has to look at.
pub(super) const STEPS: u32 = 2;

/// Takes a sample of `current` if this tick of the event is one and `current` a target.
#[inline(always)]
pub(crate) fn take(ctx: &PerfEventContext) {
    if !is_sample() {
        return;
    }
    let (pid, tid) = current();
    if tid == 0 {
        return;
    }
    let paused = gpu_stack::pause();
    sample(ctx, pid, tid);
    gpu_stack::resume(paused);
}

/// Whether this tick is a sample. Other ticks touch nothing but this.
#[inline(always)]
fn is_sample() -> bool {
    let Some(countdown) = COUNTDOWN.get_ptr_mut(0) else { return true };
    // SAFETY: this CPU's value, which only this program changes while the event is open, and perf events do not nest; user space may set it
    // anew, which at worst takes or passes a tick more. The helper changes numbers of this CPU without a lock: what interrupts another
    // program's draw may repeat a number.
    unsafe { (*countdown).is_sample(|| bpf_get_prandom_u32()) }
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
    begun.head = SampleHead { head: head(kind::SAMPLE, pid, tid), ..SampleHead::default() };
    begun.codes.begin(begun.head.head.at_ns);
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    1
}

/// How a walk ended. The scratch is looked up anew: the steps wrote to it behind the back of any reference.
#[inline(always)]
pub(super) fn walked(ended: impl Fn(&SampleHead) -> u8) -> u8 {
    match scratch().map(|scratch| ended(&scratch.head)) {
        Some(end::RUNNING) => end::TOO_DEEP,
        Some(code) => code,
        None => end::NOTHING,
    }
}

/// This CPU's scratch.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: reads the CPU number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // SAFETY: one program at a time uses this CPU's value: perf events do not nest, and launches have values of their own.
    SCRATCH.get_ptr_mut(cpu + gpu_stack::scratch_offset()).map(|scratch| unsafe { &mut *scratch })
}

/// Calls `step` until it answers 1, `limit` times at most; says whether it did.
///
/// `step` calls a function with a global name (Linux 5.6), of which the verifier takes any answer for possible: a turn is a handful of
/// instructions to it. `bpf_loop` would do the same from 5.17 on only, and has the step looked at again wherever it is called.
#[inline(always)]
pub(super) fn repeat(limit: u32, step: impl Fn(u32) -> u32) -> bool {
    for turn in 0..limit {
        if step(turn) != 0 {
            return true;
        }
    }
    false
}
