//! Exact time on a CPU, from `sched_switch`.
//!
//! In the hook `current` is still the thread that leaves, so that its slice is [last switch, now). Neighbouring slices of threads that
//! are not targets are merged into runs (`on_cpu.rs`) and sent when something else follows: a busy machine with a quiet target costs one
//! lookup a switch, and one event where a process ran for a while. Where nothing is sent of a switch: `totals.rs`.

use super::groups;
use super::maps::{CPU_STATE, current, head_at, is_target, settings};
use super::rings::{NO_WAKEUP, send_event};
use super::waits;
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use tracer_ebpf::wire::{BackgroundEvent, CpuState, Run, SliceEvent, kind, lost};

/// `current` leaves this CPU.
#[inline(always)]
pub(crate) fn leave_cpu() {
    let Some(state) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: the map's slot of this CPU; the hook runs with interrupts off.
    let state = unsafe { &mut *state };
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    let start = state.since_ns;
    state.since_ns = now;
    let (pid, tid) = current();
    if tid == 0 {
        flush_other(state);
    } else if is_target(pid) {
        flush_other(state);
        if start != 0 {
            send(pid, tid, start, now);
        }
        waits::begin(pid, tid, now);
        groups::left_cpu(pid);
    } else if start != 0 && !state.run.takes(pid, start, now) {
        flush_other(state);
        let comm = bpf_get_current_comm().unwrap_or([0; 16]);
        state.run = Run { start_ns: start, end_ns: now, pid, reserved: 0, comm };
    }
}

/// Sends the open run of threads that are not targets.
#[inline(always)]
fn flush_other(state: &mut CpuState) {
    let Run { start_ns, end_ns, pid, comm, .. } = state.run;
    if start_ns != 0 {
        let event = BackgroundEvent { head: head_at(kind::BACKGROUND, pid, 0, end_ns), start_ns, comm };
        send_event(&event, NO_WAKEUP, lost::SLICES);
        state.run.start_ns = 0;
    }
}

#[inline(always)]
fn send(pid: u32, tid: u32, start_ns: u64, end_ns: u64) {
    let slice = SliceEvent { head: head_at(kind::SLICE, pid, tid, end_ns), start_ns, ran_ns: ran_so_far() };
    send_event(&slice, NO_WAKEUP, lost::SLICES);
}

/// CPU time of `current` since it began, by the scheduler's own account, which is up to date at a switch; 0 where it cannot be read.
#[inline(always)]
fn ran_so_far() -> u64 {
    // SAFETY: the helper checks the address.
    let ran = unsafe {
        let task = bpf_get_current_task() as *const u8;
        bpf_probe_read_kernel(task.add(settings().task_ran as usize).cast::<u64>())
    };
    ran.unwrap_or(0)
}
