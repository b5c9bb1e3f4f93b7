//! The life of processes: who is a target, and what user space must learn about it.
//!
//! A child of a target is one from its first instruction: the fork hook runs before the child does. It also starts with its parent's
//! address space and interpreter, which hold until it executes another program.

use super::groups::{born_inside, follow, pointer, word32};
use super::last_process::changed;
use super::maps::{
    ADDRESS_SPACES, CONTEXTS, CPU_STATE, HOTSPOTS, PYTHONS, TARGETS, count, current, head, is_always_on,
    is_ours, is_target, settings, sums_time,
};
use super::ranges;
use super::rings::{Events, NO_WAKEUP, WAKEUP, WAKEUP_ONCE, is_filling, send_event};
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use aya_ebpf::programs::{RawTracePointContext, TracePointContext};
use aya_log_ebpf::debug;
use tracer_ebpf::wire::{OURS, TaskEvent, kind, lost};

/// `PROT_EXEC`.
const EXECUTABLE: u64 = 4;
/// Offsets of arguments in the record of `sys_enter_mmap`, the same on every 64-bit kernel: 16 + 8 × position.
const MMAP_PROT: usize = 16 + 2 * 8;

/// `current` made a task.
#[inline(always)]
pub(crate) fn fork(parent_task: *const u8, child: *const u8) {
    let offsets = settings();
    let (parent, _) = current();
    let Some(pid) = field(child, offsets.task_tgid) else { return };
    if pid == parent {
        return; // A thread: it belongs to its process.
    }
    let is_target = if offsets.system_wide == 0 { adopt(parent, pid) } else { !stays_ours(parent, pid) };
    if !is_target {
        if offsets.system_wide == 0 && born_inside(parent_task, child) {
            follow(pid, pid);
        }
        return;
    }
    // SAFETY: the values are copied at once.
    if let Some(space) = unsafe { ADDRESS_SPACES.get(&parent) } {
        let _full = ADDRESS_SPACES.insert(&pid, space, 0);
    }
    // SAFETY: as above.
    if let Some(layout) = unsafe { PYTHONS.get(&parent) } {
        let _full = PYTHONS.insert(&pid, layout, 0);
    }
    // SAFETY: as above.
    if let Some(variable) = unsafe { CONTEXTS.get(&parent) } {
        let _full = CONTEXTS.insert(&pid, variable, 0);
    }
    changed();
    send(kind::FORK, pid);
}

/// Makes the child of a target a target; a pid that came back to a background process is forgotten.
#[inline(always)]
fn adopt(parent: u32, pid: u32) -> bool {
    // SAFETY: the value is not kept.
    if unsafe { TARGETS.get(&parent) }.is_none() {
        if TARGETS.remove(&pid).is_ok() {
            changed();
        }
        return false;
    }
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    if TARGETS.insert(&pid, &now, 0).is_err() {
        count(lost::TARGETS);
        return false;
    }
    true
}

/// Whether a child is the tracer's own as its parent is; a pid that came back to a background process is not any more.
#[inline(always)]
fn stays_ours(parent: u32, pid: u32) -> bool {
    if is_ours(parent) {
        return TARGETS.insert(&pid, &OURS, 0).is_ok();
    }
    let _absent = TARGETS.remove(&pid);
    false
}

/// `current` became another program: nothing that was known of its memory holds.
#[inline(always)]
pub(crate) fn exec(ctx: &RawTracePointContext) {
    let (pid, _) = current();
    if !is_target(pid) {
        return;
    }
    let _absent = ADDRESS_SPACES.remove(&pid);
    let _absent = PYTHONS.remove(&pid);
    let _absent = HOTSPOTS.remove(&pid);
    let _absent = CONTEXTS.remove(&pid);
    ranges::forget(pid);
    changed();
    debug!(ctx, "process {} executes another program", pid);
    if is_anothers() {
        // For whoever records it ends here.
        let _absent = TARGETS.remove(&pid);
        send(kind::EXIT, 0);
        return;
    }
    send(kind::EXEC, 0);
}

/// Whether one user's processes alone are targets, and `current` has become none: it has another user, or a program (set-user-ID, with
/// capabilities, not readable) into which that user may not look, as the kernel has it (ptrace(2)).
#[inline(always)]
fn is_anothers() -> bool {
    /// `MMF_DUMPABLE_MASK`, and `SUID_DUMP_USER` (include/linux/sched/coredump.h, v5.10).
    const DUMPABLE: u32 = 3;
    const BY_USER: u32 = 1;
    let of = settings();
    if of.cred_euid == 0 {
        return false;
    }
    // SAFETY: only gives an address.
    let task = unsafe { bpf_get_current_task() } as *const u8;
    let user = pointer(task, of.task_cred).and_then(|cred| word32(cred, of.cred_euid));
    let flags = pointer(task, of.task_mm).and_then(|memory| word32(memory, of.mm_flags));
    user != Some(of.user) || flags.is_none_or(|flags| flags & DUMPABLE != BY_USER)
}

/// `current` ends. Its pid stays a target: its last slice is still to come, and a pid that comes back is settled at its fork.
#[inline(always)]
pub(crate) fn exit() {
    let (pid, tid) = current();
    if is_target(pid) {
        ranges::forget(tid);
        send(kind::EXIT, 0);
    }
}

/// `current` is about to map memory.
#[inline(always)]
pub(crate) fn mmap(ctx: &TracePointContext) {
    // SAFETY: the offset lies in the record of this tracepoint.
    let prot = unsafe { ctx.read_at::<u64>(MMAP_PROT) }.unwrap_or(0);
    if prot & EXECUTABLE == 0 {
        return;
    }
    let (pid, _) = current();
    if !is_target(pid) || sums_time() && has_no_mappings(pid) {
        return;
    }
    let Some(state) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: the value is this CPU's, and only this program uses the field, which no other instance of it interrupts.
    let (announced, now) = unsafe { (&mut (*state).announced, bpf_ktime_get_ns()) };
    if announced.sends(pid, now) {
        send(kind::MMAP, 0);
    }
}

/// Whether user space has not read the mappings of a process: it reads those of processes that are sampled.
#[inline(always)]
fn has_no_mappings(pid: u32) -> bool {
    // SAFETY: the value is not kept.
    unsafe { ADDRESS_SPACES.get(&pid) }.is_none()
}

#[inline(always)]
fn send(what: u32, other: u32) {
    let (pid, tid) = current();
    let event = TaskEvent {
        head: head(what, pid, tid),
        comm: bpf_get_current_comm().unwrap_or([0; 16]),
        other,
        reserved: 0,
    };
    send_event(&event, wakes_for(what), lost::TASKS);
}

/// Who sums CPU time sees together what begins and ends, some time later; an agent, whenever it looks.
#[inline(always)]
fn wakes_for(what: u32) -> u64 {
    if is_always_on() {
        return if what == kind::MMAP || is_filling::<Events>() { WAKEUP } else { NO_WAKEUP };
    }
    if sums_time() { WAKEUP_ONCE } else { WAKEUP }
}

/// A 32-bit field of a kernel struct.
#[inline(always)]
fn field(base: *const u8, offset: u32) -> Option<u32> {
    // SAFETY: the helper checks the address; it fails rather than faults.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<u32>()) }.ok()
}
