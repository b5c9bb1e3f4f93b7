//! CPU time that was summed by process between two readings of power, and how it is laid out as slices, which all that reads recordings takes.
//!
//! Between two readings nobody knows when a process ran, or which of its threads, but for the moments of samples:
//!
//! ```text
//! between readings   [------a-----b------a--------)   process A 6, process B 4; samples: a, b, a
//! laid out           [..aaaBB..bbbb...aaa.......  )   a sample has its part of the process's time, around it
//! ```
//!
//! A process's time on a CPU is divided evenly among its samples there; what has no room around one of them, and the time of processes without
//! a sample, fills what is left of the time in between, as that of the thread whose sample is nearest. So each process has its time between two
//! readings to the nanosecond, and a finer time than that is made up: power that was read within a sum has
//! nothing to go by, and is left out. A process that executes another program between two readings is one to
//! the sum: its samples tell the programs apart.

use super::record::{CounterValue, CpuOwner, CpuTotals, DomainClass, Reading, Slice};
use super::tables::Recording;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::{CpuId, DomainId, Pid, ProcessKey, ThreadKey};
use std::collections::BTreeMap;

/// Within this time a sample shows who runs on a CPU.
const NEAR_NS: u64 = 500_000_000;

/// Sums of so many CPUs begin together at most.
const MOST_CPUS: usize = 1024;

/// A reading and the sums that are taken at it are not further apart, nor by more than a quarter of a sum.
const NEAR_AN_END_NS: u64 = 25_000_000;

/// Lays out what was summed. Of a recording in the making: once for each sum, with the samples that have come.
pub fn lay_out(recording: &mut Recording) {
    let totals = std::mem::take(&mut recording.totals);
    if totals.is_empty() {
        return;
    }
    let samples = Samples::of(recording);
    let slices = totals.iter().flat_map(|of_cpu| samples.lay_out(of_cpu)).collect::<Vec<_>>();
    recording.slices.extend(slices);
    leave_out_readings(recording, &totals);
}

/// Leaves out readings of counters well within a sum: nobody knows who ran in its parts. The last of each
/// domain stays, and all of one that could not be read at times.
fn leave_out_readings(recording: &mut Recording, totals: &[CpuTotals]) {
    let mut sums: Vec<(KtimeNs, KtimeNs)> = totals.iter().map(|of_cpu| (of_cpu.start, of_cpu.end)).collect();
    sums.sort_unstable();
    let is_within = |at: KtimeNs| {
        let begun = sums.get(..sums.partition_point(|(start, _)| *start < at)).unwrap_or_default();
        begun.iter().rev().take(MOST_CPUS).any(|&(start, end)| {
            let margin = (end.ns_since(start) / 4).min(NEAR_AN_END_NS);
            at.ns_since(start) > margin && end > at && end.ns_since(at) > margin
        })
    };
    let is_gpu = |domain: &DomainId| {
        recording.domains.iter().any(|of| of.id == *domain && of.class == DomainClass::Gpu)
    };
    let of_cpus = recording.readings.iter_mut().filter(|(domain, _)| !is_gpu(domain));
    for readings in of_cpus.map(|(_, readings)| readings).filter(|of| of.iter().all(is_value)) {
        let last = readings.iter().map(|reading| reading.at).max();
        readings.retain(|reading| Some(reading.at) == last || !is_within(reading.at));
    }
}

const fn is_value(reading: &Reading) -> bool {
    matches!(reading.value, CounterValue::MicroJoules(_))
}

/// A sample's moment.
#[derive(Clone, Copy)]
struct Seen {
    at: KtimeNs,
    thread: ThreadKey,
    pid: Pid,
}

/// A thread at a moment.
type ThreadAt = (KtimeNs, ThreadKey);
/// What each sample has of its process's time, and the time of those that have no sample.
type Parts = (Vec<(KtimeNs, ThreadKey, u64)>, Vec<(CpuOwner, u64)>);

/// The moments of samples, in order.
struct Samples<'a> {
    of_cpu: BTreeMap<CpuId, Vec<Seen>>,
    /// Of each process on each CPU, and on all.
    of_process: BTreeMap<(ProcessKey, Option<CpuId>), Vec<ThreadAt>>,
    recording: &'a Recording,
}

impl<'a> Samples<'a> {
    fn of(recording: &'a Recording) -> Self {
        let mut samples = Self { of_cpu: BTreeMap::new(), of_process: BTreeMap::new(), recording };
        for sample in &recording.samples {
            let Some((process, pid)) = samples.process_of(sample.thread) else { continue };
            let seen = Seen { at: sample.at, thread: sample.thread, pid };
            samples.of_cpu.entry(sample.cpu).or_default().push(seen);
            for cpu in [Some(sample.cpu), None] {
                samples.of_process.entry((process, cpu)).or_default().push((sample.at, sample.thread));
            }
        }
        samples.of_cpu.values_mut().for_each(|of| of.order_by_key(|seen| seen.at));
        samples.of_process.values_mut().for_each(|of| of.sort_unstable());
        samples
    }

    fn process_of(&self, thread: ThreadKey) -> Option<(ProcessKey, Pid)> {
        let process = self.recording.threads.get(thread.index())?.process;
        Some((process, self.recording.processes.get(process.index())?.pid))
    }

    /// The slices of a CPU between two readings.
    fn lay_out(&self, totals: &CpuTotals) -> Vec<Slice> {
        let (parts, rest) = self.parts(totals);
        let mut layout = Layout { cpu: totals.cpu, free: totals.start, rest, gaps: vec![], slices: vec![] };
        for (number, &(at, thread, ns)) in parts.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| parts.get(before));
            let start = before.map_or(totals.start, |(before, ..)| before.midpoint(at));
            let end = parts.get(number + 1).map_or(totals.end, |(next, ..)| at.midpoint(*next));
            layout.put(start, at, end, CpuOwner::Target(thread), ns);
        }
        layout.finish(totals.end)
    }

    /// What each sample has of its process's time, in order of time, and the time of those that have no sample here.
    fn parts(&self, totals: &CpuTotals) -> Parts {
        let here = self.within(totals);
        let mut numbers: BTreeMap<Pid, Vec<usize>> = BTreeMap::new();
        here.iter().enumerate().for_each(|(number, seen)| numbers.entry(seen.pid).or_default().push(number));
        let (mut ns_of, mut rest) = (vec![0_u64; here.len()], vec![]);
        for &(who, ns) in &totals.of {
            let CpuOwner::Target(thread) = who else {
                rest.push((who, ns));
                continue;
            };
            let of =
                self.process_of(thread).and_then(|(_, pid)| numbers.get(&pid)).filter(|of| !of.is_empty());
            let Some(of) = of else {
                rest.push((CpuOwner::Target(self.nearest(thread, totals)), ns));
                continue;
            };
            let (each, more) = (ns / of.len() as u64, ns % of.len() as u64);
            for (&number, place) in of.iter().zip(0..) {
                ns_of[number] = ns_of[number].saturating_add(each + u64::from(place < more));
            }
        }
        let parts = here.iter().zip(ns_of).map(|(seen, ns)| (seen.at, seen.thread, ns));
        (parts.filter(|(.., ns)| *ns > 0).collect(), rest)
    }

    /// The samples on the CPU between the two readings.
    fn within(&self, totals: &CpuTotals) -> &[Seen] {
        let of_cpu = self.of_cpu.get(&totals.cpu).map_or(&[][..], Vec::as_slice);
        let until = |moment: KtimeNs| of_cpu.partition_point(|seen| seen.at < moment);
        of_cpu.get(until(totals.start)..until(totals.end)).unwrap_or_default()
    }

    /// The thread of a process whose sample is nearest to this time: on the CPU within half a second, where threads come back to, else on any;
    /// without one the thread that is named.
    fn nearest(&self, named: ThreadKey, totals: &CpuTotals) -> ThreadKey {
        let Some((process, _)) = self.process_of(named) else { return named };
        let middle = totals.start.midpoint(totals.end);
        let here = self.nearest_of((process, Some(totals.cpu)), middle).filter(|(away, _)| *away < NEAR_NS);
        let nearest = here.or_else(|| self.nearest_of((process, None), middle));
        nearest.map_or(named, |(_, thread)| thread)
    }

    /// The nearest sample: how far away, and of which thread.
    fn nearest_of(&self, key: (ProcessKey, Option<CpuId>), moment: KtimeNs) -> Option<(u64, ThreadKey)> {
        let of = self.of_process.get(&key)?;
        let after = of.partition_point(|(at, _)| *at < moment);
        let before = after.checked_sub(1).and_then(|before| of.get(before));
        let away =
            |&(at, thread): &(KtimeNs, ThreadKey)| (moment.ns_since(at).max(at.ns_since(moment)), thread);
        before.into_iter().chain(of.get(after)).map(away).min_by_key(|(away, _)| *away)
    }
}

/// A CPU's time between two readings in the making.
struct Layout {
    cpu: CpuId,
    /// Up to here all is laid out.
    free: KtimeNs,
    /// What has no place yet.
    rest: Vec<(CpuOwner, u64)>,
    /// Where there is room.
    gaps: Vec<(KtimeNs, KtimeNs)>,
    slices: Vec<Slice>,
}

impl Layout {
    /// Puts time around a moment, between `start` and `end`; what has no room there is put anywhere later.
    fn put(&mut self, start: KtimeNs, at: KtimeNs, end: KtimeNs, who: CpuOwner, ns: u64) {
        let length = ns.min(end.ns_since(start));
        let latest = end.as_ns().saturating_sub(length).max(start.as_ns());
        let begin = at.as_ns().saturating_sub(length / 2).clamp(start.as_ns(), latest);
        self.add(KtimeNs::from_ns(begin), who, length);
        self.rest.push((who, ns - length));
    }

    fn add(&mut self, start: KtimeNs, who: CpuOwner, ns: u64) {
        let end = KtimeNs::from_ns(start.as_ns().saturating_add(ns));
        if ns > 0 {
            self.gaps.push((self.free, start));
            self.slices.push(Slice { cpu: self.cpu, who, start, end });
            self.free = end;
        }
    }

    /// Fills the gaps with what has no place. A CPU has not run for longer than the time between two readings: of a damaged recording what is
    /// more is left out.
    fn finish(mut self, end: KtimeNs) -> Vec<Slice> {
        self.gaps.push((self.free, end));
        let mut gaps = self.gaps.into_iter();
        let (mut from, mut until) = (KtimeNs::default(), KtimeNs::default());
        for (who, mut ns) in self.rest {
            while ns > 0 {
                while from >= until {
                    let Some(gap) = gaps.next() else { return self.slices };
                    (from, until) = gap;
                }
                let length = ns.min(until.ns_since(from));
                let end = KtimeNs::from_ns(from.as_ns().saturating_add(length));
                self.slices.push(Slice { cpu: self.cpu, who, start: from, end });
                (from, ns) = (end, ns - length);
            }
        }
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CounterValue, CpuId, CpuOwner, CpuTotals, DomainClass, DomainId, KtimeNs, Pid, ProcessKey, Reading,
        Recording, Slice, ThreadKey, lay_out,
    };
    use crate::ids::{StackId, Tid};
    use crate::recording::record::{Domain, Origin, Process, Sample, Scope, StackStatus, Thread};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Threads 0 and 1 of process 7, thread 2 of process 8, thread 3 of what process 7 executes later.
    const PIDS: [u32; 3] = [7, 8, 7];
    const PROCESSES: [u32; 4] = [0, 0, 1, 2];

    /// Samples on CPU 0 as moment and thread, and what was summed there between 0 and 100.
    fn laid_out(samples: &[(u64, u32)], of: &[(u32, u64)]) -> Vec<Slice> {
        let process = |(key, pid): (u32, u32)| Process {
            key: ProcessKey::new(key),
            pid: Pid::new(pid),
            parent: None,
            name: String::new(),
            command: vec![],
            runtime: None,
        };
        let thread = |(key, process): (u32, u32)| Thread {
            key: ThreadKey::new(key),
            process: ProcessKey::new(process),
            tid: Tid::new(key),
            name: String::new(),
        };
        let sample = |&(at, thread): &(u64, u32)| Sample {
            at: KtimeNs::from_ns(at),
            cpu: CpuId::new(0),
            thread: ThreadKey::new(thread),
            stack: StackId::new(0),
            status: StackStatus::Complete,
        };
        let of = of.iter().map(|&(thread, ns)| (CpuOwner::Target(ThreadKey::new(thread)), ns)).collect();
        let (start, end) = (KtimeNs::from_ns(0), KtimeNs::from_ns(100));
        let mut recording = Recording {
            processes: (0..).zip(PIDS).map(process).collect(),
            threads: (0..).zip(PROCESSES).map(thread).collect(),
            samples: samples.iter().map(sample).collect(),
            totals: vec![CpuTotals { cpu: CpuId::new(0), start, end, of }],
            ..Recording::default()
        };
        lay_out(&mut recording);
        assert!(recording.totals.is_empty());
        recording.slices.sort_by_key(|slice| slice.start);
        recording.slices
    }

    /// Thread, start and end.
    fn short(slices: &[Slice]) -> Vec<(u32, u64, u64)> {
        let thread = |who| if let CpuOwner::Target(key) = who { key.get() } else { u32::MAX };
        slices.iter().map(|slice| (thread(slice.who), slice.start.as_ns(), slice.end.as_ns())).collect()
    }

    /// Each sample has its part of its process's time around it, whichever thread it is of.
    #[test]
    fn time_lies_around_samples() {
        let slices = laid_out(&[(20, 0), (50, 2), (80, 1)], &[(0, 20), (2, 10)]);
        assert_eq!(short(&slices), [(0, 15, 25), (2, 45, 55), (1, 75, 85)]);
    }

    /// What has no room around its sample, and who has no sample, fills the gaps from the first on.
    #[test]
    fn gaps_are_filled() {
        let slices = laid_out(&[(10, 0), (30, 2)], &[(0, 50), (2, 20)]);
        assert_eq!(short(&slices), [(0, 0, 20), (2, 20, 40), (0, 40, 70)]);
        assert_eq!(short(&laid_out(&[(90, 0)], &[(0, 10), (2, 5)])), [(2, 0, 5), (0, 85, 95)]);
    }

    /// Without a sample of its own between the readings, time is the thread's whose sample is nearest; without any, the thread's that is named.
    #[test]
    fn nearest_samples_name_threads() {
        assert_eq!(short(&laid_out(&[(110, 1), (400, 0)], &[(0, 9)])), [(1, 0, 9)]);
        assert_eq!(short(&laid_out(&[(110, 2)], &[(0, 9)])), [(0, 0, 9)]);
    }

    /// Of a process that executes another program in between, samples tell the programs apart.
    #[test]
    fn programs_of_one_process() {
        assert_eq!(short(&laid_out(&[(10, 0), (90, 3)], &[(3, 20)])), [(0, 5, 15), (3, 85, 95)]);
    }

    /// More than there was time for, which no recorder writes, is cut off.
    #[test]
    fn damage_is_cut_off() {
        assert_eq!(short(&laid_out(&[(10, 0)], &[(0, 80), (2, u64::MAX)])), [(0, 0, 80), (2, 80, 100)]);
    }

    /// Power that is read well within a sum is left out, but for the last; what is read at its ends stays, as
    /// a GPU's does.
    #[test]
    fn power_is_read_between_sums() {
        let moment = KtimeNs::from_ns;
        let sum = |cpu: u32, start: u64, end: u64| CpuTotals {
            cpu: CpuId::new(cpu),
            start: moment(start),
            end: moment(end),
            of: vec![],
        };
        let times = [0, 100, 501, 999, 1_004, 1_500, 1_998, 2_300, 2_600, 2_900];
        let reading = |at: u64| Reading { at: moment(at), value: CounterValue::MicroJoules(at) };
        let domain = |(id, class): (u32, DomainClass)| Domain {
            id: DomainId::new(id),
            name: String::new(),
            class,
            scope: Scope::Machine,
            origin: Origin::measured("powercap", String::new(), None),
            idle: None,
        };
        let mut recording = Recording {
            domains: (0..).zip([DomainClass::Package, DomainClass::Gpu]).map(domain).collect(),
            readings: [0, 1].map(|id| (DomainId::new(id), times.map(reading).to_vec())).into(),
            totals: vec![sum(0, 0, 1_000), sum(1, 3, 1_002), sum(0, 1_000, 2_000), sum(1, 2_000, 3_000)],
            ..Recording::default()
        };
        lay_out(&mut recording);
        let left = [0, 1].map(|id| {
            let of = &recording.readings[&DomainId::new(id)];
            of.iter().map(|reading| reading.at.as_ns()).collect::<Vec<_>>()
        });
        assert_eq!(left, [vec![0, 100, 999, 1_004, 1_998, 2_900], times.to_vec()]);
        let readings = recording.readings.get_mut(&DomainId::new(0)).unwrap();
        readings.extend([Reading { at: moment(3_500), value: CounterValue::Failed }, reading(3_501)]);
        recording.totals = vec![sum(0, 3_000, 4_000)];
        lay_out(&mut recording);
        assert_eq!(recording.readings[&DomainId::new(0)].len(), 8, "one of them failed");
    }

    proptest! {
        /// Whatever was sampled, each process has its time to the nanosecond, between the readings and without overlap.
        #[test]
        fn time_is_kept(
            mut samples in prop::collection::vec((0_u64..150, 0_u32..4), 0..9),
            (one, other) in (0_u64..=60, 0_u64..=40),
        ) {
            samples.sort_unstable();
            let slices = laid_out(&samples, &[(1, one), (2, other)]);
            let mut found: BTreeMap<u32, u64> = BTreeMap::new();
            for (thread, start, end) in short(&slices) {
                *found.entry(PIDS[PROCESSES[thread as usize] as usize]).or_default() += end - start;
            }
            let ns = |pid| found.get(&pid).copied().unwrap_or(0);
            prop_assert_eq!((ns(7), ns(8)), (one, other));
            prop_assert!(slices.windows(2).all(|two| two[0].end <= two[1].start));
            prop_assert!(slices.last().is_none_or(|last| last.end.as_ns() <= 100));
        }
    }
}
