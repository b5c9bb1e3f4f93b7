//! The stack of a launch, by the walkers of samples.
//!
//! A sample may interrupt this: the timer's interrupt comes in the middle of a program on a uprobe. So launches have a scratch of their own
//! behind those of samples, and `WALKING` says whose turn it is on a CPU. Another thread that takes this one's CPU meanwhile finds it
//! taken, and its launch has no stack this time. Leaves out kernel frames, as there are none.

use super::last_process::know;
use super::maps::{count, head_at, settings};
use super::native_walk::native_frames;
use super::python_walk::python_frames;
use super::raw;
use super::rings::Events;
use super::sample::scratch;
use super::send::send;
use aya_ebpf::helpers::bpf_get_current_comm;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use tracer_ebpf::wire::{SampleHead, kind, lost};

/// 1 while a launch's stack is walked on this CPU, and no sample is taken in the middle of it.
#[map]
static WALKING: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// One of so many stacks of known sites whose walk ends early is copied for user space: 125 of each thread a second at the most.
const COPIED_AGAIN: u32 = 8;

/// Takes the stack of `current` and sends it; 0 where it could. `fresh`: its site is new, so that a copy for user space is worth its
/// bytes where the walk ends early. A function with a global name: the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn launch_stack(pid: u32, tid: u32, now: u64, fresh: u32) -> u32 {
    let Some(walking) = walking() else { return 1 };
    if *walking != 0 {
        count(lost::LAUNCH_STACKS);
        return 1;
    }
    *walking = 1;
    let taken = take(pid, tid, now, fresh != 0);
    *walking = 0;
    u32::from(!taken)
}

#[inline(always)]
fn take(pid: u32, tid: u32, now: u64, fresh: bool) -> bool {
    let Some(begun) = scratch() else { return false };
    if !know(&mut begun.walk, pid) {
        return false;
    }
    begun.head = SampleHead { head: head_at(kind::GPU_STACK, pid, tid, now), ..SampleHead::default() };
    begun.codes.begin(now);
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    begun.walk.cursor = 0;
    begun.walk.kernel_sp = 0;
    let python_end = python_frames();
    let native_end = native_frames();
    let Some(done) = scratch() else { return false };
    done.head.python_end = python_end as u8;
    done.head.native_end = native_end as u8;
    if raw::is_left_to_user_space(native_end as u8)
        && (fresh || settings().unwind_user != 0 || is_copied_again())
    {
        raw::capture_launch();
    }
    let Some(done) = scratch() else { return false };
    send::<Events>(done);
    true
}

/// Of a known site a copy is sent sometimes: as long as there are no tables, it alone tells whether another caller launches there now.
#[inline(always)]
fn is_copied_again() -> bool {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_prandom_u32() }.is_multiple_of(COPIED_AGAIN)
}

/// A sample begins on this CPU: the walkers are its own until `resume`, which gets what this gives.
#[inline(always)]
pub(super) fn pause() -> u32 {
    if settings().gpu == 0 {
        return 0;
    }
    walking().map_or(0, |walking| core::mem::replace(walking, 0))
}

/// The sample ended.
#[inline(always)]
pub(super) fn resume(paused: u32) {
    if settings().gpu != 0
        && let Some(walking) = walking()
    {
        *walking = paused;
    }
}

/// By how many places the scratch of who walks now lies behind that of samples.
#[inline(always)]
pub(super) fn scratch_offset() -> u32 {
    if settings().gpu == 0 {
        return 0;
    }
    if walking().is_some_and(|walking| *walking != 0) { settings().gpu } else { 0 }
}

#[inline(always)]
fn walking() -> Option<&'static mut u32> {
    // SAFETY: this CPU's value; who interrupts puts back what it found.
    WALKING.get_ptr_mut(0).map(|walking| unsafe { &mut *walking })
}
