//! Processes that come into the recorded control group later, or leave it: moved by hand, by a container's runtime, or made there
//! (`clone3` with `CLONE_INTO_CGROUP`, Linux 5.7). An agent is told of each that moves.
//!
//! A group is inside another where that is among its parents. Leaves out who is in the group at the start, which user space reads.

use super::last_process::changed;
use super::maps::{TARGETS, count, head, is_always_on, settings};
use super::rings::{Events, NO_WAKEUP, WAKEUP, is_filling, send_event};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel};
use tracer_ebpf::wire::{GroupSettings, TaskEvent, kind, lost};

/// Levels of groups that are looked through.
const LEVELS: u32 = 24;

/// Since when a process is a target that has left the group; no process is one since then.
const LEAVING: u64 = 1;

/// The group that is recorded, written by user space before loading; its number is 0 where none is.
#[unsafe(no_mangle)]
static GROUP: GroupSettings = GroupSettings {
    id: 0,
    hierarchy: 0,
    kernfs_node: 0,
    node_id: 0,
    parent: 0,
    root: 0,
    root_hierarchy: 0,
    task_groups: 0,
    default_group: 0,
    reserved: 0,
};

#[inline(always)]
fn group() -> GroupSettings {
    // SAFETY: the static is initialized, and volatile keeps the compiler from using the value it was compiled with.
    unsafe { core::ptr::read_volatile(&raw const GROUP) }
}

/// A process was moved to a group: into the recorded one, out of it, or within it.
#[inline(always)]
pub(crate) fn moved(to: *const u8, task: *const u8) {
    if is_always_on() {
        return tell(task);
    }
    let group = group();
    let hierarchy = pointer(to, group.root).and_then(|root| word32(root, group.root_hierarchy));
    if group.id == 0 || hierarchy != Some(group.hierarchy) {
        return;
    }
    let (Some(pid), Some(tid)) = (word32(task, settings().task_tgid), word32(task, settings().task_pid))
    else {
        return;
    };
    if pid == settings().tracer_pid {
        return;
    }
    // SAFETY: the value is not kept.
    let is_target = unsafe { TARGETS.get(&pid) }.is_some();
    match (is_inside(&group, to), is_target) {
        (true, false) => follow(pid, tid),
        // Its time on the CPU that it may have now is recorded to its end.
        (false, true) => {
            let _full = TARGETS.insert(&pid, &LEAVING, 0);
        }
        (true, true) => stay(pid),
        _ => (),
    }
}

/// Tells of a process that was moved; a thread alone still counts for its process.
#[inline(always)]
fn tell(task: *const u8) {
    let (Some(pid), Some(tid)) = (word32(task, settings().task_tgid), word32(task, settings().task_pid))
    else {
        return;
    };
    if pid == tid && pid != settings().tracer_pid {
        send_join(pid, tid);
    }
}

/// A process that was about to leave has come back.
#[inline(always)]
fn stay(pid: u32) {
    if is_leaving(pid) {
        // SAFETY: only reads the clock.
        let now = unsafe { bpf_ktime_get_ns() };
        let _full = TARGETS.insert(&pid, &now, 0);
    }
}

/// A thread of a target has left its CPU: where its process has left the group, it is no target any more.
#[inline(always)]
pub(crate) fn left_cpu(pid: u32) {
    if group().id != 0 && is_leaving(pid) {
        let _absent = TARGETS.remove(&pid);
        changed();
    }
}

#[inline(always)]
fn is_leaving(pid: u32) -> bool {
    // SAFETY: the value is copied at once.
    unsafe { TARGETS.get(&pid) }.is_some_and(|since| *since == LEAVING)
}

/// Whether a task was made in the recorded group by a process outside of it.
#[inline(always)]
pub(crate) fn born_inside(parent: *const u8, child: *const u8) -> bool {
    let group = group();
    // Only the second version's groups are given with a task's making.
    if group.id == 0 || group.hierarchy != 0 {
        return false;
    }
    let of = |task| pointer(task, group.task_groups).and_then(|set| pointer(set, group.default_group));
    let (Some(own), Some(parents)) = (of(child), of(parent)) else { return false };
    own != parents && is_inside(&group, own) && !is_inside(&group, parents)
}

/// Makes a process a target that no target made.
#[inline(always)]
pub(crate) fn follow(pid: u32, tid: u32) {
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    if TARGETS.insert(&pid, &now, 0).is_err() {
        count(lost::TARGETS);
        return;
    }
    changed();
    send_join(pid, tid);
}

#[inline(always)]
fn send_join(pid: u32, tid: u32) {
    let event = TaskEvent { head: head(kind::JOIN, pid, tid), comm: [0; 16], other: 0, reserved: 0 };
    let wakes = if !is_always_on() || is_filling::<Events>() { WAKEUP } else { NO_WAKEUP };
    send_event(&event, wakes, lost::TASKS);
}

/// Whether a group is the recorded one, or below it.
#[inline(always)]
fn is_inside(group: &GroupSettings, at: *const u8) -> bool {
    let mut at = at;
    for _ in 0..LEVELS {
        if pointer(at, group.kernfs_node).and_then(|node| word64(node, group.node_id)) == Some(group.id) {
            return true;
        }
        match pointer(at, group.parent) {
            // The parent's first field is what the pointer leads to.
            Some(parent) => at = parent,
            None => return false,
        }
    }
    false
}

/// A pointer that is not null, in a kernel struct.
#[inline(always)]
pub(super) fn pointer(base: *const u8, offset: u32) -> Option<*const u8> {
    word64(base, offset).filter(|&address| address != 0).map(|address| address as *const u8)
}

#[inline(always)]
fn word64(base: *const u8, offset: u32) -> Option<u64> {
    // SAFETY: the helper checks the address; it fails rather than faults.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<u64>()) }.ok()
}

#[inline(always)]
pub(super) fn word32(base: *const u8, offset: u32) -> Option<u32> {
    // SAFETY: as above.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<u32>()) }.ok()
}
