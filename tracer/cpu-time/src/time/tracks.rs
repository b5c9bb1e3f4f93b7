//! Tracks: what is followed from sample to sample as one chain of functions.
//!
//! A track is a thread's time, or that part of a worker's time which it works for one requester
//! (`delegation::call_tracks`): between two samples nobody knows the function that runs, but for whom a
//! worker works is often known exactly, and what it does for one requester says nothing about what it does
//! for another. Leaves out what a track was probably doing between its samples (`markov_bridge`).

use crate::numerics::search::partition_near;
use crate::time::inter_sample::{Ends, NO_GAP, NOBODY, Neighbour, SamplePoint, TrackRun};
use crate::time::owners::OwnerId;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, ThreadKey};
use std::ops::Range;

/// Runs and samples of one track, both in time order.
#[derive(Clone, Debug)]
pub struct Track {
    /// The thread that is followed.
    pub thread: ThreadKey,
    /// Where and when it ran.
    pub runs: Vec<TrackRun>,
    /// Their number is given when the track is bridged.
    pub points: Vec<SamplePoint>,
    /// What else than samples is known of its stacks, in time order.
    pub ends: Vec<SleepStart>,
    /// Who owns its time if it has no sample.
    pub unseen: OwnerId,
}

/// A thread went to sleep, and in whose stack is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepStart {
    /// Since when it was in that stack for sure.
    pub since: KtimeNs,
    /// When it left its CPU.
    pub at: KtimeNs,
    /// Whose stack it was in.
    pub owner: OwnerId,
}

/// A stack that was taken this long before a thread left its CPU is what it left in.
const LEAVING_NS: u64 = 100_000;

impl Track {
    /// The run on a CPU at a time.
    pub(super) fn run(&self, cpu: CpuId, span: Span) -> Option<&TrackRun> {
        let at = self.runs.binary_search_by_key(&(span, cpu), |run| (run.span, run.cpu)).ok()?;
        self.runs.get(at)
    }

    /// The positions of the samples that fell into a run.
    fn positions(&self, run: &TrackRun) -> Range<usize> {
        let first = self.points.partition_point(|point| point.at < run.span.start);
        first..partition_near(&self.points, first, |point| point.at < run.span.end)
    }

    /// The samples that fell into a run.
    pub fn inside(&self, run: &TrackRun) -> &[SamplePoint] {
        self.points.get(self.positions(run)).unwrap_or_default()
    }

    /// These, the one before them and the one behind them.
    pub(super) fn around(&self, run: &TrackRun) -> &[SamplePoint] {
        let Range { start, end } = self.positions(run);
        self.points.get(start.saturating_sub(1)..self.points.len().min(end + 1)).unwrap_or_default()
    }

    /// The samples that share a run. In a track of `several` calls a run that has samples is theirs alone: those of
    /// another call say nothing of it.
    pub fn sharing(&self, run: &TrackRun, several: bool) -> &[SamplePoint] {
        let inside = self.inside(run);
        if several && !inside.is_empty() { inside } else { self.around(run) }
    }

    /// The parts of a run and which of these samples owns each, in time order; neighbours with one owner are one
    /// part. `border` is the track's CPU time at which one sample's time ends and the next one's begins.
    pub fn owned_parts(
        &self,
        run: &TrackRun,
        samples: &[SamplePoint],
        border: impl Fn(&SamplePoint, &SamplePoint) -> u64,
        parts: &mut Vec<(Span, OwnerId)>,
    ) {
        if samples.is_empty() {
            parts.push((run.span, self.unseen));
        }
        let mut start = run.span.start;
        let mut samples = samples.iter().peekable();
        while let Some(point) = samples.next() {
            let end = samples.peek().map_or(run.span.end, |next| run.at(border(point, next)));
            match parts.last_mut() {
                Some((part, last)) if *last == point.owner => part.end = end,
                _ if start < end => parts.push((Span { start, end }, point.owner)),
                // Two samples at one moment, or a border outside the run: the earlier of them owns nothing.
                _ => {}
            }
            start = end;
        }
    }

    /// The slices of a run between samples, in time order: when, and between which; gaps count from the first
    /// of `points`, which are all of the track's.
    pub(super) fn slices_of(&self, run: &TrackRun, points: &[SamplePoint], mut add: impl FnMut(Span, Ends)) {
        let end_ns = run.cpu_ns.saturating_add(run.span.ns());
        let first = points.partition_point(|point| point.cpu_ns < run.cpu_ns);
        let after = partition_near(points, first, |point| point.cpu_ns < end_ns);
        let before = first.checked_sub(1).and_then(|i| points.get(i));
        let behind = points.get(after);
        let inside = points.get(first..after).unwrap_or_default();
        let (mut from, mut left) = (run.cpu_ns, before);
        for (number, right) in (first..).zip(inside.iter().map(Some).chain([behind])) {
            let to = right.map_or(end_ns, |point| point.cpu_ns).min(end_ns);
            if from < to {
                let gap = u32::try_from(number).unwrap_or(NO_GAP);
                self.slices_between(run, (from, to), (left, right, gap), &mut add);
            }
            (from, left) = (to, right);
        }
    }

    /// A run's slice between two samples; two where its end is known for longer.
    fn slices_between(
        &self,
        run: &TrackRun,
        (from, to): (u64, u64),
        (left, right, gap): (Option<&SamplePoint>, Option<&SamplePoint>, u32),
        add: &mut impl FnMut(Span, Ends),
    ) {
        let moment = |cpu_ns: u64| KtimeNs::from_ns(run.span.start.as_ns() + (cpu_ns - run.cpu_ns));
        let span = Span { start: moment(from), end: moment(to) };
        let Some(any) = left.or(right) else {
            return add(span, Ends::certain(self.unseen));
        };
        let nobody = Neighbour { owner: NOBODY, ns: 0, slept_ns: 0 };
        let end = |owner, ns: u64, apart: u64| Neighbour { owner, ns, slept_ns: apart.saturating_sub(ns) };
        let left = left.map_or(nobody, |point| {
            end(point.owner, from.saturating_sub(point.cpu_ns), span.start.ns_since(point.at))
        });
        let right = right.map_or(nobody, |point| {
            end(point.owner, point.cpu_ns.saturating_sub(to), point.at.ns_since(span.end))
        });
        let ends = Ends { track: any.track, left, right, gap };
        let Some(ending) = self.ending_of(run).filter(|_| span.end == run.span.end) else {
            return add(span, ends);
        };
        let known = Neighbour { owner: ending.owner, ..nobody };
        let since = ending.since.max(span.start);
        if since > span.start {
            add(Span { end: since, ..span }, Ends { right: known, ..ends });
        }
        if since < span.end {
            add(Span { start: since, ..span }, Ends { left: known, right: known, ..ends });
        }
    }

    /// What is known of a run's end, where it ended in a sleep that was recorded.
    fn ending_of(&self, run: &TrackRun) -> Option<SleepStart> {
        let before = self.ends.partition_point(|ending| ending.at <= run.span.end).checked_sub(1)?;
        let ending = self.ends.get(before)?;
        (ending.at >= run.span.start && run.span.end.ns_since(ending.at) <= LEAVING_NS).then_some(*ending)
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, NOBODY, Neighbour, SamplePoint, SleepStart, Span, Track, TrackRun};
    use energy_trace_model::ids::{CpuId, ThreadKey};

    const fn at(ns: u64) -> KtimeNs {
        KtimeNs::from_ns(ns)
    }

    /// A run from 1,000 to 2,000 with a sample of owner 1 at 1,400, and a sleep in owner 2's stack.
    fn ends(since: u64, slept: u64) -> Vec<(u64, Neighbour, Neighbour)> {
        let run = TrackRun { cpu: CpuId::new(0), span: Span { start: at(1_000), end: at(2_000) }, cpu_ns: 0 };
        let track = Track {
            thread: ThreadKey::new(0),
            runs: vec![run],
            points: vec![SamplePoint { track: 0, at: at(1_400), cpu_ns: 400, owner: 1 }],
            ends: vec![SleepStart { since: at(since), at: at(slept), owner: 2 }],
            unseen: 9,
        };
        let mut ends = vec![];
        track.slices_of(&run, &track.points, |span, of| ends.push((span.ns(), of.left, of.right)));
        ends
    }

    /// What a thread slept in is on the right of its run's last slice; where it is known for longer, both
    /// sides of a slice of its own.
    #[test]
    fn slices_end_where_threads_sleep() {
        let end = |owner, ns| Neighbour { owner, ns, slept_ns: 0 };
        let first = (400, end(NOBODY, 0), end(1, 0));
        assert_eq!(ends(1_999, 1_999), [first, (599, end(1, 0), end(2, 0)), (1, end(2, 0), end(2, 0))]);
        assert_eq!(ends(1_700, 1_999), [first, (300, end(1, 0), end(2, 0)), (300, end(2, 0), end(2, 0))]);
        assert_eq!(ends(500, 1_999), [first, (600, end(2, 0), end(2, 0))]);
        // It slept before this run.
        assert_eq!(ends(500, 999), [first, (600, end(1, 0), end(NOBODY, 0))]);
    }

    /// The parts of each run (from, until) of a thread with samples of these owners at these times; 9 is nobody.
    fn parts(samples: &[(u64, u32)], runs: &[(u64, u64)]) -> Vec<(u64, u64, u32)> {
        let mut track =
            Track { thread: ThreadKey::new(0), runs: vec![], points: vec![], ends: vec![], unseen: 9 };
        let mut cpu_ns = 0;
        for &(from, until) in runs {
            let before = |moment| samples.partition_point(|(when, _)| *when < moment);
            let inside = samples[before(from)..before(until)].iter();
            let point = |&(when, owner): &(u64, u32)| SamplePoint {
                track: 0,
                at: at(when),
                cpu_ns: cpu_ns + when - from,
                owner,
            };
            track.points.extend(inside.map(point));
            let span = Span { start: at(from), end: at(until) };
            track.runs.push(TrackRun { cpu: CpuId::new(0), span, cpu_ns });
            cpu_ns += until - from;
        }
        let mut found = vec![];
        for run in &track.runs {
            let mut parts = vec![];
            let run = track.run(run.cpu, run.span).unwrap();
            let half_way = |one: &SamplePoint, next: &SamplePoint| one.cpu_ns.midpoint(next.cpu_ns);
            track.owned_parts(run, track.around(run), half_way, &mut parts);
            let of = |(span, owner): (Span, u32)| (span.start.as_ns(), span.end.as_ns(), owner);
            found.extend(parts.into_iter().map(of));
        }
        found
    }

    /// Parts of a run change half-way between samples; those of one owner are one part, and of two at one moment
    /// the later has it.
    #[test]
    fn parts_of_a_run() {
        let three = [(5, 1), (15, 2), (25, 3)];
        assert_eq!(parts(&three, &[(0, 30)]), [(0, 10, 1), (10, 20, 2), (20, 30, 3)]);
        assert_eq!(parts(&three, &[(0, 15)]), [(0, 15, 1)]);
        assert_eq!(parts(&three, &[(15, 30)]), [(15, 20, 2), (20, 30, 3)]);
        assert_eq!(parts(&[(5, 1), (15, 1), (25, 3)], &[(0, 30)]), [(0, 20, 1), (20, 30, 3)]);
        assert_eq!(parts(&[(0, 1), (0, 2)], &[(0, 30)]), [(0, 30, 2)]);
    }

    /// Half-way is so on the thread's CPU time: before a sleep, behind it, or in a run between that has no sample
    /// of its own, however far. Without any sample all is nobody's.
    #[test]
    fn half_way_across_sleeps() {
        let two = [(0, 10), (100, 110)];
        assert_eq!(parts(&[(2, 1), (104, 2)], &two), [(0, 8, 1), (8, 10, 2), (100, 110, 2)]);
        assert_eq!(parts(&[(8, 1), (108, 2)], &two), [(0, 10, 1), (100, 103, 1), (103, 110, 2)]);
        let three = [(0, 10), (50, 60), (100, 110)];
        let between = [(50, 54, 1), (54, 60, 2)];
        assert_eq!(parts(&[(6, 1), (102, 2)], &three)[1..3], between);
        assert_eq!(parts(&[], &two), [(0, 10, 9), (100, 110, 9)]);
    }

    /// A loop of 3,500 on its CPU and a sleep, of which the last function has 500; samples are 1,000 to 3,000 of
    /// CPU time apart: it has a seventh of the time, within a twentieth. (Were runs borders, it would lack a third.)
    #[test]
    fn what_runs_last_has_its_time() {
        let (turn, sleep, turns) = (3_500, 200, 20_000);
        let (mut samples, mut cpu) = (vec![], 0);
        while cpu < turn * turns {
            samples.push((cpu + cpu / turn * sleep, u32::from(cpu % turn >= 3_000)));
            cpu += 1_000 + samples.len() as u64 * 1_236 % 2_000;
        }
        let run = |number| (number * (turn + sleep), number * (turn + sleep) + turn);
        let parts = parts(&samples, &(0..turns).map(run).collect::<Vec<_>>());
        let of_last = parts.iter().filter(|part| part.2 == 1).map(|(from, until, _)| until - from);
        let share = of_last.sum::<u64>() as f64 / (turn * turns) as f64;
        assert!((share * 7.0 - 1.0).abs() < 0.05, "{share}");
    }
}
