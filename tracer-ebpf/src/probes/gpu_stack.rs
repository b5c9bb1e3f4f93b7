//! The stack of a launch, by the walkers of samples.
//!
//! A sample may interrupt this: the timer's interrupt comes in the middle of a program on a uprobe. So launches have a scratch of their own
//! behind those of samples, and `WALKING` says whose turn it is on a CPU. Another thread that takes this one's CPU meanwhile finds it
//! taken, and its launch has no stack this time. Leaves out kernel frames, as there are none.

use super::last_process::know;
use super::maps::{count, settings};
use super::native_walk::native_frames;
use super::python_walk::python_frames;
use super::ranges;
use super::raw;
use super::rings::{Events, NO_WAKEUP, send_event};
use super::scratch::{scratch, walking};
use super::send::send;
use super::thread_context;
use aya_ebpf::helpers::bpf_get_current_comm;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use core::arch::asm;
use tracer_ebpf::gpu::{GpuEvent, WITH_STACK};
use tracer_ebpf::wire::{EventHead, SampleHead, kind, lost};

/// One of so many stacks of known sites whose walk ends early is copied for user space: 125 of each thread a second at the most.
const COPIED_AGAIN: u32 = 8;

/// Keeps the event of a launch whose stack is due until `finish`, which must follow; false where another thread has this CPU's scratch.
#[inline(always)]
pub(super) fn keep(event: &GpuEvent) -> bool {
    let Some(walking) = walking() else { return false };
    if swap(walking, 1) != 0 {
        count(lost::LAUNCH_STACKS);
        return false;
    }
    let Some(scratch) = scratch() else {
        *walking = 0;
        return false;
    };
    scratch.launch = *event;
    true
}

/// Takes the stack of the launch that was kept, and sends first it, then the launch. `fresh`: its site is new, so that a copy for user space is worth
/// its bytes where the walk ends early.
#[inline(always)]
pub(super) fn finish(fresh: bool) {
    let taken = begin_launch() != 0 && take(fresh);
    if let Some(done) = scratch() {
        done.launch.flags |= if taken { WITH_STACK } else { 0 };
        send_event(&done.launch, NO_WAKEUP, lost::LAUNCHES);
    }
    if let Some(walking) = walking() {
        *walking = 0;
    }
}

/// Writes the head of the stack; 0 where there is nothing to walk by. As `begin_sample` a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_launch() -> u32 {
    let Some(begun) = scratch() else { return 0 };
    let event = begun.launch.head;
    if !know(&mut begun.walk, event.pid) {
        return 0;
    }
    begun.head = SampleHead::default();
    begun.head.head = EventHead { kind: kind::GPU_STACK, ..event };
    begun.head.range = ranges::path_of(event.tid);
    begun.codes.begin(event.at_ns);
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    begun.walk.cursor = 0;
    begun.walk.kernel_sp = 0;
    1
}

/// Walks the stack and sends it; whether it could.
#[inline(always)]
fn take(fresh: bool) -> bool {
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
    thread_context::add();
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

/// Puts `value` there and gives what was there, in one instruction (Linux 5.12; probes with a cookie need 5.15): another thread may take this CPU at
/// any point, and two that both saw a zero would write one scratch.
#[inline(always)]
fn swap(place: &mut u64, value: u64) -> u64 {
    let mut value = value;
    // SAFETY: exchanges a register with the number in the map.
    unsafe { asm!("{1} = xchg_64({0} + 0, {1})", in(reg) core::ptr::from_mut(place), inout(reg) value) };
    value
}
