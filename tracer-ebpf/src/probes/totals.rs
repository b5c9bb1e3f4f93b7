//! CPU time summed by process and CPU, where no event is to tell of a switch (`--slices no`).
//!
//! A CPU keeps the sums of those that ran last beside its clock, where adding is cheap, and adds what they leave to one of two maps. At a
//! reading of power user space has `on_reading` run there (`BPF_PROG_TEST_RUN` on a CPU, which is an interrupt): whoever runs gets its time so far,
//! the sums go to the map, and from then on the CPU adds to the other one. Nobody writes the first any more, and user space takes all out of it. So
//! every nanosecond lies in one reading's times exactly, of who runs through a reading too. Leaves out whom a time belongs to: the tracer's own
//! processes are here as well.

use super::maps::{CPU_STATE, count, current};
use aya_ebpf::helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{HashMap, PerCpuArray};
use tracer_ebpf::wire::{CpuState, MOST_TOTALS, Sum, TotalKey, lost};

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

/// `current` leaves this CPU.
#[inline(always)]
pub(crate) fn leave_cpu() {
    if let Some(state) = state() {
        // SAFETY: only reads the clock.
        add_turn(state, unsafe { bpf_ktime_get_ns() });
    }
}

/// A reading: what follows on this CPU counts for the next.
#[inline(always)]
pub(crate) fn read(next: u64) {
    let (Some(state), Some(read_at)) = (state(), READ_AT.get_ptr_mut(0)) else { return };
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    add_turn(state, now);
    for place in &mut state.sums {
        let sum = core::mem::take(place);
        if sum.pid != 0 {
            keep(state.turn, sum);
        }
    }
    state.turn = next & 1;
    // SAFETY: this CPU's slot, which only this writes.
    unsafe { *read_at = now };
}

#[inline(always)]
fn state() -> Option<&'static mut CpuState> {
    // SAFETY: the map's slot of this CPU; `on_switch` runs with interrupts off, and `on_reading` in one, or where nothing is switched.
    CPU_STATE.get_ptr_mut(0).map(|state| unsafe { &mut *state })
}

/// Gives `current` its time on this CPU up to now.
#[inline(always)]
fn add_turn(state: &mut CpuState, now: u64) {
    let start = state.since_ns;
    state.since_ns = now;
    let (pid, tid) = current();
    if tid != 0
        && start != 0
        && start < now
        && let Some(other) = state.add(pid, now - start)
    {
        keep(state.turn, other);
    }
}

/// Puts a sum into the map whose turn it is.
#[inline(always)]
fn keep(turn: u64, sum: Sum) {
    // SAFETY: only reads the CPU number.
    let key = TotalKey { cpu: unsafe { bpf_get_smp_processor_id() }, pid: sum.pid };
    let is_kept = if turn == 0 { add(&TOTALS_EVEN, &key, sum.ns) } else { add(&TOTALS_ODD, &key, sum.ns) };
    if !is_kept {
        count(lost::TOTALS);
        if let Some(rest) = NO_ROOM.get_ptr_mut(turn as u32 & 1) {
            // SAFETY: this CPU's slot, which only this writes while it is its turn.
            unsafe { *rest += sum.ns };
        }
    }
}

/// Adds to a process's time on this CPU; false where there is no room.
#[inline(always)]
fn add(totals: &HashMap<TotalKey, u64>, key: &TotalKey, ns: u64) -> bool {
    let Some(total) = totals.get_ptr_mut(key) else { return totals.insert(key, &ns, 0).is_ok() };
    // SAFETY: no other CPU has this key, and user space takes it out only when its turn is over.
    unsafe { *total += ns };
    true
}
