//! CPU time summed by process and CPU, where no event is to tell of a switch (`--slices no`).
//!
//! A CPU keeps the sums of those that ran last beside its clock, where adding is cheap, and adds what they leave to one of two maps. At a
//! reading of power user space has `on_reading` run there (`BPF_PROG_TEST_RUN` on a CPU, which is an interrupt): whoever runs gets its time so far,
//! the sums go to the map, and from then on the CPU adds to the other one. Nobody writes the first any more, and user space takes all out of it. So
//! every nanosecond lies in one reading's times exactly, of who runs through a reading too. A switch asks no clock: the scheduler has just read
//! its own, and its structs are read in place. Leaves out whom a time belongs to: the tracer's own
//! processes are here as well.

use super::maps::{CPU_STATE, SETTINGS, count, current, field, setting, settings};
use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, seq_file};
use aya_ebpf::helpers::generated::bpf_seq_write;
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use tracer_ebpf::wire::{BY_TASK, CpuState, MOST_TASKS, MOST_TOTALS, Sum, TaskTime, TotalKey, looks, lost};

/// Nanoseconds since the reading before, for every other reading.
#[map]
static TOTALS_EVEN: HashMap<TotalKey, u64> = HashMap::with_max_entries(MOST_TOTALS, 0);

/// The same for those between.
#[map]
static TOTALS_ODD: HashMap<TotalKey, u64> = HashMap::with_max_entries(MOST_TOTALS, 0);

/// Nanoseconds of those that found no room, by turn.
#[map]
static NO_ROOM: PerCpuArray<u64> = PerCpuArray::with_max_entries(2, 0);

/// When a CPU's last reading was: what the program gives back does not reach user space.
#[map]
static READ_AT: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// A task leaves this CPU.
#[inline(always)]
pub(crate) fn leave_cpu(task: *const u8) {
    let Some(state) = state() else { return };
    // SAFETY: only reads the clock.
    let ran = state.until_switch(clock_at(task), || unsafe { bpf_ktime_get_ns() });
    // SAFETY: the kernel's own task, whose fields lie there.
    let pid = unsafe { field::<u32>(task, setting(&SETTINGS.task_tgid)) };
    add_turn(state, pid, ran);
}

/// The time of a switch by the scheduler's clock, which it has just read; by ours where the kernel does not say where that is.
#[inline(always)]
fn clock_at(task: *const u8) -> u64 {
    if setting(&SETTINGS.task_queue) == 0 {
        // SAFETY: only reads the clock.
        return unsafe { bpf_ktime_get_ns() };
    }
    // SAFETY: the kernel's own task; where a pointer of its is none, what is read is 0.
    unsafe {
        let queue: *const u8 = field(task, setting(&SETTINGS.task_queue));
        let cpu: *const u8 = field(queue, setting(&SETTINGS.queue_cpu));
        field(cpu, setting(&SETTINGS.cpu_clock))
    }
}

/// What each task had run when it was last looked at, by its place in memory.
#[map]
static RAN: HashMap<u64, u64> = HashMap::with_max_entries(MOST_TASKS, BPF_F_NO_PREALLOC);

/// What a task must have run to be told of, and whose turn it is: each tenth task, by its process, is told of
/// in any case. User space sets both.
#[map]
static LOOKS: Array<u64> = Array::with_max_entries(looks::COUNT, 0);

/// `bpf_iter_task`: tells user space what a task has run since the last time.
#[inline(always)]
pub(crate) fn look(ctx: *const [*const u8; 2]) {
    // SAFETY: the context of such a program: what iterates, and the task, none at the end.
    let [meta, task] = unsafe { [(*ctx)[0], (*ctx)[1]] };
    if task.is_null() {
        return;
    }
    // SAFETY: the kernel's own task.
    let (pid, cpu) =
        unsafe { (field(task, setting(&SETTINGS.task_tgid)), field(task, setting(&SETTINGS.task_cpu))) };
    let ns = since_last_look(task, least_of(pid));
    if ns == 0 {
        return;
    }
    let time = TaskTime { pid, cpu, ns };
    // SAFETY: the head of the context is the sequence that is written; the time lies on the stack.
    unsafe {
        let to: *mut seq_file = field(meta, 0);
        let from = core::ptr::from_ref(&time).cast_mut().cast();
        let _full = bpf_seq_write(to, from, size_of::<TaskTime>() as u32);
    }
}

/// What a task of this process must have run.
#[inline(always)]
fn least_of(pid: u32) -> u64 {
    let (Some(least), Some(turn)) = (LOOKS.get(looks::LEAST_NS), LOOKS.get(looks::TURN)) else { return 0 };
    if u64::from(pid % looks::TURNS) == *turn { 0 } else { *least }
}

/// Nanoseconds that a task has run since this was last asked, or since it began; 0 where they are fewer than
/// `least`, and asked again.
#[inline(always)]
fn since_last_look(task: *const u8, least: u64) -> u64 {
    // SAFETY: the kernel's own task.
    let ran: u64 = unsafe { field(task, setting(&SETTINGS.task_ran)) };
    let key = task as u64;
    match RAN.get_ptr_mut(&key) {
        Some(last) => {
            // SAFETY: one looks at a time.
            let last = unsafe { &mut *last };
            let ns = grown(*last, ran);
            if ns < least {
                return 0;
            }
            *last = ran;
            ns
        }
        None if RAN.insert(&key, &ran, 0).is_ok() => ran,
        None => {
            count(lost::TOTALS);
            0
        }
    }
}

/// Where another task is in the place of one that was, it has run less.
#[inline(always)]
fn grown(last: u64, ran: u64) -> u64 {
    if ran >= last { ran - last } else { ran }
}

/// A task is no more: adds what it has run since the last look, to the CPU where it ran. This one may be
/// another's: a task's memory is freed anywhere.
#[inline(always)]
pub(crate) fn freed(task: *const u8) {
    let Some(state) = state() else { return };
    // SAFETY: the kernel's own task.
    let (pid, cpu, ran, started): (u32, u32, u64, u64) = unsafe {
        (
            field(task, setting(&SETTINGS.task_tgid)),
            field(task, setting(&SETTINGS.task_cpu)),
            field(task, setting(&SETTINGS.task_ran)),
            field(task, setting(&SETTINGS.task_started)),
        )
    };
    let key = task as u64;
    // SAFETY: the value is copied at once.
    let ns = match unsafe { RAN.get(&key) } {
        Some(last) => grown(*last, ran),
        None if started >= settings().since_ns => ran,
        None => 0,
    };
    let _absent = RAN.remove(&key);
    if ns > 0 {
        keep(state.turn, Sum { pid, reserved: 0, ns }, Some(cpu));
    }
}

/// A reading: what follows on this CPU counts for the next.
#[inline(always)]
pub(crate) fn read(next: u64) {
    let (Some(state), Some(read_at)) = (state(), READ_AT.get_ptr_mut(0)) else { return };
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    let ran = state.until_reading(now);
    if setting(&SETTINGS.totals) != BY_TASK {
        add_turn(state, current().0, ran);
    }
    for place in &mut state.sums {
        let sum = core::mem::take(place);
        if sum.pid != 0 {
            keep(state.turn, sum, None);
        }
    }
    state.turn = next & 1;
    // SAFETY: this CPU's slot, which only this writes.
    unsafe { *read_at = now };
}

#[inline(always)]
fn state() -> Option<&'static mut CpuState> {
    // SAFETY: the map's slot of this CPU; `on_turn` runs with interrupts off, and `on_reading` in one, or where nothing is switched.
    CPU_STATE.get_ptr_mut(0).map(|state| unsafe { &mut *state })
}

/// Gives a process its time on this CPU; an idle CPU's is nobody's.
#[inline(always)]
fn add_turn(state: &mut CpuState, pid: u32, ran: u64) {
    if pid != 0
        && let Some(other) = state.add(pid, ran)
    {
        keep(state.turn, other, None);
    }
}

/// Puts a sum into the map whose turn it is here; `ran_on`: another CPU may be the one that it was on.
#[inline(always)]
fn keep(turn: u64, sum: Sum, ran_on: Option<u32>) {
    // SAFETY: only reads the CPU number.
    let by = unsafe { bpf_get_smp_processor_id() };
    let key = TotalKey { cpu: ran_on.unwrap_or(by), by, pid: sum.pid };
    let is_kept = if turn == 0 { add(&TOTALS_EVEN, &key, sum.ns) } else { add(&TOTALS_ODD, &key, sum.ns) };
    if !is_kept {
        count(lost::TOTALS);
        if let Some(rest) = NO_ROOM.get_ptr_mut(turn as u32 & 1) {
            // SAFETY: this CPU's slot, which only this writes while it is its turn.
            unsafe { *rest += sum.ns };
        }
    }
}

/// Adds to a process's time on a CPU; false where there is no room.
#[inline(always)]
fn add(totals: &HashMap<TotalKey, u64>, key: &TotalKey, ns: u64) -> bool {
    let Some(total) = totals.get_ptr_mut(key) else { return totals.insert(key, &ns, 0).is_ok() };
    // SAFETY: no other CPU has this key, and user space takes it out only when its turn is over.
    unsafe { *total += ns };
    true
}
