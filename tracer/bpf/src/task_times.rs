//! CPU time of tasks by the scheduler's own account, asked of each task at a reading of power: nothing has to run at a switch.
//!
//! A program goes through all tasks (`BPF_PROG_TYPE_TRACING`, `iter/task`, Linux 5.8) and tells what each has run since it was last asked. The
//! scheduler brings a running task's account up to date at its ticks, so that a reading has some milliseconds of the one before; and a task's
//! time is where it ran last. What is more than a CPU had time for is put where there was some, or comes with the next reading: nothing is
//! lost or made up. Leaves out tasks that have ended, which the probes add to the sums (`totals`).

use super::bpf_call::make;
use aya::maps::{Array, MapData};
use aya_obj::generated::{bpf_attach_type, bpf_cmd};
use energy_trace_model::ids::{CpuId, Pid};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use tracer_ebpf::wire::{TaskTime, looks};
use zerocopy::FromBytes as _;

/// More than a CPU had time for by no more than this, two ticks of 100 a second, was left out of the reading before.
const TICKS_NS: u64 = 20_000_000;
/// Bytes that are read at once: as many as the kernel has at a time.
const PIECE: usize = 32 << 10;

/// Processes' time by CPU.
pub(crate) type Times = BTreeMap<CpuId, Vec<(Pid, u64)>>;

/// Who has run less is told of each tenth time: thousands of processes that wake now and then.
const LEAST_NS: u64 = 200_000;

/// What asks all tasks.
pub(crate) struct Tasks {
    iterator: OwnedFd,
    /// What is said to the program before.
    looks: Array<MapData, u64>,
    turn: u32,
    /// What had no room in the reading before.
    left: Times,
}

/// The part of `union bpf_attr` for `BPF_LINK_CREATE` of a program that iterates (include/uapi/linux/bpf.h, v5.10).
#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

/// The same for `BPF_ITER_CREATE`.
#[repr(C)]
struct IterCreate {
    link: u32,
    flags: u32,
}

impl Tasks {
    /// What tasks have run so far does not count.
    pub(crate) fn begin(program: BorrowedFd<'_>, looks: Array<MapData, u64>) -> io::Result<Self> {
        let link = LinkCreate {
            program: program.as_raw_fd().cast_unsigned(),
            target: 0,
            attach_type: bpf_attach_type::BPF_TRACE_ITER as u32,
            flags: 0,
        };
        let iterator = make(bpf_cmd::BPF_LINK_CREATE, &link)?;
        let mut tasks = Self { iterator, looks, turn: 0, left: Times::new() };
        tasks.ask(0)?;
        Ok(tasks)
    }

    /// Adds what tasks have run since the reading before, for which CPUs had so much time. `last`: little
    /// things as well.
    pub(crate) fn add_to(
        &mut self,
        times: &mut Times,
        rooms: &BTreeMap<CpuId, u64>,
        last: bool,
    ) -> io::Result<()> {
        let mut sums: HashMap<(CpuId, Pid), u64> = HashMap::new();
        for TaskTime { pid, cpu, ns } in self.ask(if last { 0 } else { LEAST_NS })? {
            *sums.entry((CpuId::new(cpu), Pid::new(pid))).or_default() += ns;
        }
        let asked = sums.into_iter().map(|((cpu, pid), ns)| (cpu, (pid, ns)));
        let left = std::mem::take(&mut self.left).into_iter();
        let left = left.flat_map(|(cpu, of)| of.into_iter().map(move |time| (cpu, time)));
        asked.chain(left).for_each(|(cpu, time)| times.entry(cpu).or_default().push(time));
        self.left = fit(times, rooms);
        Ok(())
    }

    /// Who has run so long since he was told of, and those whose turn it is.
    fn ask(&mut self, least_ns: u64) -> io::Result<Vec<TaskTime>> {
        self.turn = (self.turn + 1) % looks::TURNS;
        let said = [(looks::LEAST_NS, least_ns), (looks::TURN, self.turn.into())];
        said.into_iter()
            .try_for_each(|(of, number)| self.looks.set(of, number, 0))
            .map_err(io::Error::other)?;
        let link = self.iterator.as_raw_fd().cast_unsigned();
        let mut tasks = File::from(make(bpf_cmd::BPF_ITER_CREATE, &IterCreate { link, flags: 0 })?);
        let (mut bytes, mut read) = (Vec::new(), 0);
        loop {
            bytes.resize(read + PIECE, 0);
            match tasks.read(bytes.get_mut(read..).unwrap_or_default())? {
                0 => break,
                more => read += more,
            }
        }
        let whole = bytes.get(..read).unwrap_or_default().chunks_exact(size_of::<TaskTime>());
        Ok(whole.filter_map(|time| TaskTime::read_from_bytes(time).ok()).collect())
    }
}

/// Has each CPU have no more than it had time for; what is left for the next reading.
fn fit(times: &mut Times, rooms: &BTreeMap<CpuId, u64>) -> Times {
    let (mut left, mut over) = (Times::new(), Vec::new());
    for (&cpu, of) in times.iter_mut() {
        let more = cut(of, rooms.get(&cpu).copied().unwrap_or(0));
        if sum(&more) <= TICKS_NS {
            left.insert(cpu, more);
        } else {
            over.extend(more.into_iter().map(|time| (cpu, time)));
        }
    }
    for (&cpu, &room) in rooms {
        let of = times.entry(cpu).or_default();
        let mut free = room.saturating_sub(sum(of));
        while free > 0
            && let Some((from, (pid, ns))) = over.pop()
        {
            let part = ns.min(free);
            of.push((pid, part));
            over.extend((part < ns).then_some((from, (pid, ns - part))));
            free -= part;
        }
    }
    over.into_iter().for_each(|(cpu, time)| left.entry(cpu).or_default().push(time));
    left
}

fn sum(of: &[(Pid, u64)]) -> u64 {
    of.iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
}

/// Cuts times to as many nanoseconds, those who have most first; what was cut off.
fn cut(of: &mut Vec<(Pid, u64)>, room: u64) -> Vec<(Pid, u64)> {
    let (mut over, mut more) = (sum(of).saturating_sub(room), Vec::new());
    if over > 0 {
        of.sort_unstable_by_key(|&(pid, ns)| (ns, pid));
    }
    while over > 0
        && let Some((pid, ns)) = of.pop()
    {
        let part = ns.min(over);
        more.push((pid, part));
        of.extend((part < ns).then_some((pid, ns - part)));
        over -= part;
    }
    more
}

#[cfg(test)]
mod tests {
    use super::{CpuId, Pid, TICKS_NS, Times, fit, sum};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;

    fn times(of: &[(u32, &[(u32, u64)])]) -> Times {
        let list = |list: &[(u32, u64)]| list.iter().map(|&(pid, ns)| (Pid::new(pid), ns)).collect();
        of.iter().map(|&(cpu, of)| (CpuId::new(cpu), list(of))).collect()
    }

    fn rooms(of: &[u64]) -> BTreeMap<CpuId, u64> {
        (0..).zip(of).map(|(cpu, &room)| (CpuId::new(cpu), room)).collect()
    }

    /// What a tick brought late is the next reading's, not another CPU's; what ran elsewhere is.
    #[test]
    fn late_and_elsewhere() {
        let mut late = times(&[(0, &[(7, 104 * MS)])]);
        assert_eq!(fit(&mut late, &rooms(&[100 * MS, 100 * MS])), times(&[(0, &[(7, 4 * MS)])]));
        assert_eq!(late, times(&[(0, &[(7, 100 * MS)]), (1, &[])]));
        let mut moved = times(&[(1, &[(7, 100 * MS), (8, 60 * MS)])]);
        assert_eq!(fit(&mut moved, &rooms(&[100 * MS, 100 * MS])), times(&[]));
        assert_eq!(moved, times(&[(0, &[(7, 60 * MS)]), (1, &[(8, 60 * MS), (7, 40 * MS)])]));
    }

    proptest! {
        /// Whatever ran where, no CPU has more than it had time for, no process more or less than it ran, and nothing is left where there was room.
        #[test]
        fn time_is_kept(
            of in prop::collection::vec(prop::collection::vec((0_u32..9, 0..60 * MS), 0..9), 1..5),
            room in prop::collection::vec(0..200 * MS, 1..5),
        ) {
            let whose = |of: &Times| {
                let mut whose: BTreeMap<Pid, u64> = BTreeMap::new();
                of.values().flatten().for_each(|&(pid, ns)| *whose.entry(pid).or_default() += ns);
                whose.retain(|_, ns| *ns > 0);
                whose
            };
            let list = |list: &Vec<(u32, u64)>| list.iter().map(|&(pid, ns)| (Pid::new(pid), ns)).collect();
            let mut all: Times = (0..).zip(&of).map(|(cpu, of)| (CpuId::new(cpu), list(of))).collect();
            let (before, rooms) = (whose(&all), rooms(&room));
            let left = fit(&mut all, &rooms);
            let room_of = |cpu| rooms.get(cpu).copied().unwrap_or(0);
            prop_assert!(all.iter().all(|(cpu, of)| sum(of) <= room_of(cpu)));
            let free: u64 = rooms.keys().map(|cpu| room_of(cpu) - sum(&all[cpu])).sum();
            prop_assert!(free == 0 || left.values().all(|of| sum(of) <= TICKS_NS));
            let mut together = all;
            left.into_iter().for_each(|(cpu, of)| together.entry(cpu).or_default().extend(of));
            prop_assert_eq!(whose(&together), before);
        }
    }
}
