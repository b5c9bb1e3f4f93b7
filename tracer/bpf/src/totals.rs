//! CPU time by process that the probes sum up, taken out at each reading of power.
//!
//! A reading runs a program on each CPU, by an interrupt, after which the CPU sums into the other of two maps; then all is taken out of the
//! first. So the times of a CPU lie exactly between two of its readings, and nothing is written and taken at once. A CPU that came online
//! since the last look at them has what it summed in the reading after. Leaves out when power is read, and whose time it is.

use super::bpf_call::{call, fd_of};
use super::per_cpu;
use super::sampling::cpus::Cpus;
use super::task_times::Tasks;
use aya::maps::Map;
use aya_obj::generated::bpf_cmd;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{CpuId, Pid};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;
use tracer_ebpf::wire::{MOST_TOTALS, TotalKey};

/// `BPF_F_TEST_RUN_ON_CPU` (Linux 5.10).
const ON_CPU: u32 = 1;
/// Between two readings of tasks, however many there are.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How often it is looked which CPUs are online.
const CPUS_EVERY_NS: u64 = 1_000_000_000;

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN` (include/uapi/linux/bpf.h, v5.10).
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    data_bytes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    took: u32,
    context_bytes: [u32; 2],
    context: [u64; 2],
    flags: u32,
    cpu: u32,
}

/// The same for `BPF_MAP_LOOKUP_AND_DELETE_BATCH` (Linux 5.6).
#[repr(C)]
#[derive(Default)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// The CPU time of processes on one CPU between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: CpuId,
    /// The reading before.
    pub start: KtimeNs,
    /// This one.
    pub end: KtimeNs,
    /// Nanoseconds of each process.
    pub of: Vec<(Pid, u64)>,
    /// Nanoseconds of processes that found no room.
    pub no_room_ns: u64,
}

/// What takes summed CPU time out.
pub struct Totals {
    program: OwnedFd,
    maps: [Map; 2],
    no_room: Map,
    read_at: Map,
    cpus: Cpus,
    online: Vec<CpuId>,
    /// When it was looked which CPUs are online.
    looked_at: KtimeNs,
    /// Into which map CPUs sum.
    turn: usize,
    /// The last reading of each CPU.
    since: BTreeMap<CpuId, KtimeNs>,
    begun: KtimeNs,
    keys: Vec<TotalKey>,
    values: Vec<u64>,
    /// Where tasks are asked; then only those who have ended are in the maps.
    tasks: Option<Tasks>,
    /// Nothing is taken out before: asking takes a microsecond a task.
    due: KtimeNs,
}

impl Totals {
    /// Before switches are followed.
    pub(crate) fn new(
        program: OwnedFd,
        maps: [Map; 2],
        others: [Map; 2],
        cpus: Cpus,
        tasks: Option<Tasks>,
    ) -> Self {
        let [no_room, read_at] = others;
        let now = energy_trace_system::clock::now();
        Self {
            program,
            maps,
            no_room,
            read_at,
            cpus,
            online: cpus.online(),
            looked_at: now,
            turn: 0,
            since: BTreeMap::new(),
            begun: now,
            keys: vec![TotalKey::default(); MOST_TOTALS as usize],
            values: vec![0; MOST_TOTALS as usize],
            tasks,
            due: now,
        }
    }

    /// Takes out what was summed since the reading before; nothing where that was so short ago that it would cost too much.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&mut self) -> io::Result<Vec<CpuTimes>> {
        let now = energy_trace_system::clock::now();
        if now < self.due {
            return Ok(Vec::new());
        }
        let times = self.read_now(now, false)?;
        if self.tasks.is_some() {
            self.due = now + rest(energy_trace_system::clock::now() - now, self.online.len());
        }
        Ok(times)
    }

    /// Asks tasks for the last time, where they are asked.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_last_of_tasks(&mut self) -> io::Result<Vec<CpuTimes>> {
        if self.tasks.is_none() {
            return Ok(Vec::new());
        }
        self.read_now(energy_trace_system::clock::now(), true)
    }

    fn read_now(&mut self, now: KtimeNs, last: bool) -> io::Result<Vec<CpuTimes>> {
        if now.ns_since(self.looked_at) > CPUS_EVERY_NS {
            (self.online, self.looked_at) = (self.cpus.online(), now);
        }
        let (quiet, next) = (self.turn, self.turn ^ 1);
        self.turn = next;
        let mut read = Vec::with_capacity(self.online.len());
        for &cpu in &self.online {
            // One that has gone offline runs nobody.
            read.extend(turn_over(&self.program, cpu, next as u64)?.then_some(cpu));
        }
        let read_at = per_cpu::read(&self.read_at, 0, self.cpus.bound())?;
        let end = |cpu: CpuId| Some((cpu, KtimeNs::from_ns(*read_at.get(cpu.index())?)));
        let mut ends: BTreeMap<CpuId, KtimeNs> = read.into_iter().filter_map(end).fill_map();
        let mut all = self.take_out(quiet)?;
        self.add_no_room(quiet, &mut all)?;
        self.add_tasks(&mut all, &ends, last)?;
        let times = all.into_iter().map(|(cpu, (of, no_room_ns))| {
            let start = self.since.get(&cpu).copied().unwrap_or(self.begun);
            CpuTimes { cpu, start, end: ends.get(&cpu).copied().unwrap_or(now), of, no_room_ns }
        });
        let times = times.collect();
        self.since.append(&mut ends);
        Ok(times)
    }

    /// Adds what tasks have run that have not ended.
    fn add_tasks(
        &mut self,
        all: &mut TakenOut,
        ends: &BTreeMap<CpuId, KtimeNs>,
        last: bool,
    ) -> io::Result<()> {
        let Some(tasks) = &mut self.tasks else { return Ok(()) };
        let start = |cpu: &CpuId| self.since.get(cpu).copied().unwrap_or(self.begun);
        let rooms = ends.iter().map(|(&cpu, end)| (cpu, end.ns_since(start(&cpu)))).collect();
        let mut times = all.iter_mut().map(|(&cpu, (of, _))| (cpu, std::mem::take(of))).collect();
        tasks.add_to(&mut times, &rooms, last)?;
        times.into_iter().for_each(|(cpu, of)| all.entry(cpu).or_default().0 = of);
        Ok(())
    }

    /// Takes all out of a map.
    fn take_out(&mut self, turn: usize) -> io::Result<TakenOut> {
        let mut all = TakenOut::new();
        let mut from = None;
        loop {
            let (count, next) = take_batch(&self.maps[turn], from, &mut self.keys, &mut self.values)?;
            for (key, &ns) in self.keys.iter().zip(&self.values).take(count) {
                all.entry(CpuId::new(key.cpu)).or_default().0.push((Pid::new(key.pid), ns));
            }
            if next.is_none() {
                return Ok(all);
            }
            from = next;
        }
    }

    /// Adds the time of those that found no room, and forgets it.
    fn add_no_room(&self, turn: usize, all: &mut TakenOut) -> io::Result<()> {
        let entry = turn as u32;
        let rest = per_cpu::read(&self.no_room, entry, self.cpus.bound())?;
        if rest.iter().all(|ns| *ns == 0) {
            return Ok(());
        }
        for (cpu, ns) in (0..).zip(rest).filter(|(_, ns)| *ns > 0) {
            all.entry(CpuId::new(cpu)).or_default().1 = ns;
        }
        per_cpu::write(&self.no_room, entry, &[0], self.cpus.bound())
    }
}

/// Time until the next reading after one that took so long: a thousandth of the machine's CPU time, and a second at the most.
fn rest(took: Duration, cpus: usize) -> Duration {
    let cpus = u32::try_from(cpus.max(1)).unwrap_or(u32::MAX);
    took.saturating_mul(1_000).checked_div(cpus).unwrap_or(LONGEST_REST).min(LONGEST_REST)
}

/// Of each CPU, nanoseconds of processes and of those that found no room.
type TakenOut = BTreeMap<CpuId, (Vec<(Pid, u64)>, u64)>;

/// Has a CPU sum into the other map; whether it is online.
fn turn_over(program: &OwnedFd, cpu: CpuId, next: u64) -> io::Result<bool> {
    let mut attr = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        context_bytes: [size_of::<u64>() as u32, 0],
        context: [std::ptr::from_ref(&next) as u64, 0],
        flags: ON_CPU,
        cpu: cpu.get(),
        ..TestRun::default()
    };
    // SAFETY: `attr` is what the command reads and writes; the context is a word that outlives the call.
    let done = unsafe { call(bpf_cmd::BPF_PROG_TEST_RUN, &raw mut attr) };
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes as many entries out as there is room for: how many, and from where on there may be more.
fn take_batch(
    map: &Map,
    from: Option<u32>,
    keys: &mut [TotalKey],
    values: &mut [u64],
) -> io::Result<(usize, Option<u32>)> {
    let map = fd_of(map).ok_or(io::ErrorKind::Unsupported)?;
    let mut to = 0_u32;
    let mut attr = Batch {
        from: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
        to: &raw mut to as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: u32::try_from(keys.len().min(values.len())).unwrap_or(u32::MAX),
        map: map.cast_unsigned(),
        ..Batch::default()
    };
    // SAFETY: `attr` is what the command reads and writes; keys and values have room for `count`, and all outlives the call.
    let done = unsafe { call(bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_BATCH, &raw mut attr) };
    match done {
        Ok(_) => Ok((attr.count as usize, Some(to))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((attr.count as usize, None)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Duration, LONGEST_REST, TestRun, rest};

    /// What the kernel reads has the kernel's sizes: to `cpu`, and to `flags`.
    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!((size_of::<TestRun>(), size_of::<Batch>()), (72, 56));
    }

    /// Tasks are asked as often as power is read where that is cheap, and once a second where it is not.
    #[test]
    fn readings_are_paid_for() {
        let micros = Duration::from_micros;
        assert_eq!(rest(micros(200), 2), Duration::from_millis(100));
        assert_eq!(rest(micros(2_400), 2), LONGEST_REST);
        assert_eq!(rest(micros(2_400), 64), Duration::from_micros(37_500));
        assert_eq!(rest(Duration::MAX, 0), LONGEST_REST);
    }
}
