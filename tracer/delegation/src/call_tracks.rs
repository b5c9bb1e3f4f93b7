//! A worker's time, call by call.
//!
//! What a worker does between two samples is not known, but for whom it works often is, exactly: slices and
//! wake-ups say when it began and when the next one asked. So a worker's time is cut where the answer to "for
//! whom?" changes, and what it did for each requester is a track of its own, with its own samples, its own
//! mix of functions and its own memory: a sample in one call says nothing about the next call.
//!
//! That needs samples of each call. A worker has a track for each of a few requesters for whom it was seen
//! often; what it does for all others is one track, in which the function of a time comes from the samples of
//! several calls, and the call itself from the cuts. Leaves out threads that work for themselves in some
//! stacks and for others in others: they stay one track, whose samples tell the call.

use super::call_context::{CallContext, Python};
use super::requesters::{RequesterSet, Role};
use super::{NEXT, Refiner, SetId};
use energy_trace_counters::Span;
use energy_trace_cpu_time::time::cpu_time::CpuTime;
use energy_trace_cpu_time::time::inter_sample::{NOBODY, SamplePoint, TrackRun};
use energy_trace_cpu_time::time::owners::{Owner, OwnerId, Segment};
use energy_trace_cpu_time::time::tracks::{SleepStart, Track};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, ThreadKey};
use energy_trace_model::recording::record::Wait;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Fewer samples do not show what a worker does for a requester.
const FEWEST_SAMPLES: usize = 20;
/// Requesters with a track of their own, for each worker.
const MOST_CALLS: usize = 6;

/// A stack in which a thread slept may have this many times the time before its sleeps that samples show it
/// in, and so many samples more.
const MOST_UNSEEN: f64 = 2.0;
const BY_CHANCE: f64 = 3.0;

/// Samples so long before a sleep may show something else than what was slept in.
const NEAR_NS: u64 = 500_000_000;

/// What of a track is for one set of requesters; `None`: for all that have no track of their own.
type Key = Option<SetId>;

/// Runs, each with its set, and samples.
#[derive(Default)]
struct CallTrack {
    runs: Vec<TrackRun>,
    sets: Vec<SetId>,
    points: Vec<SamplePoint>,
    cpu_ns: u64,
}

/// Threads whose time is followed call by call, and the segments that their calls have.
#[derive(Default)]
pub(super) struct ByCall {
    threads: BTreeSet<ThreadKey>,
    segments: Vec<Segment>,
}

impl Refiner<'_> {
    /// Makes the sample points and slices of all tracks, and gives them to the owners that they became.
    pub(super) fn add_tracks(&mut self, certain: &[Segment], mut tracks: Vec<Track>, time: &mut CpuTime) {
        let points: usize = tracks.iter().map(|track| track.points.len()).sum();
        let runs: usize = tracks.iter().map(|track| track.runs.len()).sum();
        time.points.reserve_exact(points);
        time.slices.reserve(certain.len() + points + runs);
        for &segment in certain {
            time.slices.push_certain(segment);
        }
        self.ends(&mut tracks, time);
        let mut own = vec![];
        for mut track in tracks {
            match self.role_of(&track) {
                Some(role @ (Role::Native | Role::Pooled)) => self.by_calls(&track, role, time),
                // Its slices are cut nowhere, and can wait until those of all tracks are made in their order.
                _ if self.role(track.unseen) == Role::Own => {
                    self.refine_samples(&mut track, time);
                    let here = time.add_points(&mut track.points);
                    own.push((track, here));
                }
                _ => {
                    let owners = |own: &mut Self, _, owner, span| own.stretches(owner, span, time);
                    self.add_segments(&track, true, owners);
                    self.by_sample(track, time);
                }
            }
        }
        time.add_slices(&own);
        time.slices.sort();
        self.replace_segments(certain, time);
    }

    /// The role of all samples of a track; `None` where they differ, or there are none.
    fn role_of(&self, track: &Track) -> Option<Role> {
        let first = self.role(track.points.first()?.owner);
        track.points.iter().all(|point| self.role(point.owner) == first).then_some(first)
    }

    /// One track, whose samples tell the call.
    fn by_sample(&mut self, mut track: Track, time: &mut CpuTime) {
        self.refine_samples(&mut track, time);
        time.add_track(track, |time, points, (_, run), span, ends| match ends.known_owner() {
            Some(owner) => self.by_time(Segment { cpu: run.cpu, span, owner }, time),
            None => time.slices.push(run.cpu, span, ends, points),
        });
    }

    /// Gives a track's samples to the owners that they became.
    fn refine_samples(&mut self, track: &mut Track, time: &mut CpuTime) {
        let points = track.points.iter_mut().map(|point| (point.at, &mut point.owner));
        for (at, owner) in points.chain(track.ends.iter_mut().map(|ending| (ending.at, &mut ending.owner))) {
            let role = self.role(*owner);
            if role != Role::Own {
                let paths = self.requesters.who(role, track.thread, at).paths;
                *owner = self.refined(*owner, paths, time);
            }
        }
    }

    /// Time whose owner is certain, by the moments at which the answer changes.
    fn by_time(&mut self, segment: Segment, time: &mut CpuTime) {
        for (owner, span) in self.stretches(segment.owner, segment.span, time) {
            time.slices.push_certain(Segment { owner, span, ..segment });
        }
    }

    /// One track for each call that has enough samples, and one for all others.
    fn by_calls(&mut self, track: &Track, role: Role, time: &mut CpuTime) {
        let runs = self.runs_of_sets(track, role);
        let mut counts: BTreeMap<SetId, usize> = BTreeMap::new();
        for (set, _, points) in &runs {
            *counts.entry(*set).or_default() += points.len();
        }
        let mut often: Vec<(SetId, usize)> =
            counts.into_iter().filter(|(_, count)| *count >= FEWEST_SAMPLES).collect();
        often.sort_by_key(|&(set, count)| (std::cmp::Reverse(count), set));
        often.truncate(MOST_CALLS);
        let mut calls: BTreeMap<Key, CallTrack> = BTreeMap::new();
        for (set, run, points) in runs {
            let key = often.iter().any(|(often, _)| *often == set).then_some(set);
            let call = calls.entry(key).or_default();
            let cpu_ns = |at| call.cpu_ns + Span { start: run.span.start, end: at }.ns();
            let points: Vec<SamplePoint> =
                points.iter().map(|point| SamplePoint { cpu_ns: cpu_ns(point.at), ..*point }).collect();
            for point in points {
                let owner = self.refined_in(point.owner, set, time);
                call.points.push(SamplePoint { owner, ..point });
            }
            call.runs.push(TrackRun { cpu_ns: call.cpu_ns, ..run });
            call.sets.push(set);
            call.cpu_ns = call.cpu_ns.saturating_add(run.span.ns());
        }
        for (key, call) in calls {
            self.add(call, key.is_none(), track, time);
        }
    }

    /// Segments of a track's runs, of one call or of `several`. `owners` says to whom an owner's time goes in the run of
    /// this number.
    fn add_segments(
        &mut self,
        track: &Track,
        several: bool,
        mut owners: impl FnMut(&mut Self, usize, OwnerId, Span) -> Vec<(OwnerId, Span)>,
    ) {
        self.by_call.threads.insert(track.thread);
        // Where runs are not shared, borders are those of the thread.
        if !several {
            self.borders.add(track);
        }
        let mut parts = vec![];
        for (number, run) in track.runs.iter().enumerate() {
            let samples = track.sharing(run, several);
            let border = |one: &SamplePoint, next: &SamplePoint| self.borders.between(one, next);
            track.owned_parts(run, samples, border, &mut parts);
            for (part, owner) in parts.drain(..) {
                let segment = |(owner, span)| Segment { cpu: run.cpu, span, owner };
                let segments = owners(self, number, owner, part).into_iter().map(segment);
                self.by_call.segments.extend(segments);
            }
        }
    }

    /// The owner for a set of requesters; where no sample shows one, that of the thread's nearest sample.
    fn of_set(&mut self, owner: OwnerId, near: (&Track, Span), set: SetId, time: &mut CpuTime) -> OwnerId {
        let base = match self.base_of.get(&owner) {
            Some(&base) => base,
            None if owner == near.0.unseen => nearest(near.0, near.1),
            None => owner,
        };
        self.refined_in(base, set, time)
    }

    /// Puts the segments of calls in the place of those that were cut from their threads' own.
    fn replace_segments(&mut self, certain: &[Segment], time: &mut CpuTime) {
        let ByCall { threads, segments } = std::mem::take(&mut self.by_call);
        if threads.is_empty() {
            return;
        }
        let place = |segment: &Segment| (segment.cpu, segment.span);
        let certain: HashSet<(CpuId, Span)> = certain.iter().map(place).collect();
        let owners = &mut time.owners;
        time.segments.retain(|segment| {
            let Some(owner) = owners.get_mut(segment.owner as usize) else { return true };
            let is_of_call = matches!(owner.owner, Owner::Target(thread, _) if threads.contains(&thread))
                && !certain.contains(&place(segment));
            if is_of_call {
                owner.time_ns = owner.time_ns.saturating_sub(segment.span.ns());
            }
            !is_of_call
        });
        for segment in &segments {
            if let Some(owner) = owners.get_mut(segment.owner as usize) {
                owner.time_ns = owner.time_ns.saturating_add(segment.span.ns());
            }
        }
        time.segments.extend(segments);
        time.segments.sort_by_key(place);
    }

    fn add(&mut self, call: CallTrack, several: bool, track: &Track, time: &mut CpuTime) {
        let CallTrack { runs, sets, points, .. } = call;
        let spans: Vec<Span> = runs.iter().map(|run| run.span).collect();
        let (thread, unseen, ends) = (track.thread, track.unseen, track.ends.clone());
        let of_call = Track { thread, runs, points, ends, unseen };
        self.add_segments(&of_call, several, |own, number, owner, span| {
            vec![(own.of_set(owner, (track, spans[number]), sets[number], time), span)]
        });
        time.add_track(of_call, |time, points, (position, run), span, mut ends| {
            for end in [&mut ends.left, &mut ends.right].into_iter().filter(|end| end.owner != NOBODY) {
                end.owner = self.of_set(end.owner, (track, spans[position]), sets[position], time);
            }
            time.slices.push(run.cpu, span, ends, points);
        });
    }

    /// Finds out in whose stacks threads went to sleep. A sleep shows Python frames only: it counts for the
    /// sample of the same thread and Python frames that is next to it in time.
    fn ends(&mut self, tracks: &mut [Track], time: &mut CpuTime) {
        let mut waits: BTreeMap<ThreadKey, Vec<&Wait>> = BTreeMap::new();
        for wait in self.waits {
            waits.entry(wait.thread).or_default().push(wait);
        }
        let wakes = self.requesters.wakes_of_workers();
        for track in tracks {
            let wakes = wakes.get(&track.thread).map_or(&[][..], Vec::as_slice);
            let Some(waits) = waits.get_mut(&track.thread) else { continue };
            waits.sort_by_key(|wait| wait.at);
            let mut seen: BTreeMap<Python, Vec<&SamplePoint>> = BTreeMap::new();
            for point in &track.points {
                if let Some(python) = self.python_of(point.owner, time) {
                    seen.entry(python).or_default().push(point);
                }
            }
            let mut awake = KtimeNs::default();
            let mut endings: BTreeMap<Python, Vec<SleepStart>> = BTreeMap::new();
            for wait in waits {
                let slept = std::mem::replace(&mut awake, wait.at);
                let Some(python) = self.requesters.code.python_of(wait.stack) else { continue };
                let Some(points) = seen.get(&python) else { continue };
                // It has not slept since then, and samples show nothing else.
                let other = track.points.get(..track.points.partition_point(|point| point.at <= wait.at));
                let other = other.into_iter().flatten().rev();
                let other = other
                    .take_while(|point| wait.at.ns_since(point.at) < NEAR_NS)
                    .find(|point| self.python_of(point.owner, time) != Some(python));
                let after = other.map_or(slept, |point| point.at.max(slept));
                let requesters =
                    wakes.get(..wakes.partition_point(|wake| wake.1 <= wait.at)).unwrap_or_default();
                let requesters = requesters.iter().rev().take_while(|wake| wake.1 > after);
                let requesters = requesters.filter(|wake| {
                    self.requesters.code.call_context(wake.0, wait.stack) == CallContext::Inside
                });
                let since = requesters.last().map_or(wait.at, |wake| wake.1);
                let next = points.partition_point(|point| point.at < wait.at);
                let around = [next.checked_sub(1).and_then(|i| points.get(i)), points.get(next)];
                let apart =
                    |point: &&&SamplePoint| point.at.ns_since(wait.at).max(wait.at.ns_since(point.at));
                if let Some(point) = around.into_iter().flatten().min_by_key(apart) {
                    endings.entry(python).or_default().push(SleepStart {
                        since,
                        at: wait.at,
                        owner: point.owner,
                    });
                }
            }
            endings.retain(|python, endings| is_seen(track, endings, seen[python].len()));
            track.ends = endings.into_values().flatten().collect();
            track.ends.sort_by_key(|ending| ending.at);
        }
    }

    fn python_of(&self, owner: OwnerId, time: &CpuTime) -> Option<Python> {
        match time.owners.get(owner as usize)?.owner {
            Owner::Target(_, Some(stack)) => self.requesters.code.python_of(stack),
            _ => None,
        }
    }

    /// A track's runs cut where the answer changes, each with its requesters and its samples.
    fn runs_of_sets<'l>(
        &mut self,
        track: &'l Track,
        role: Role,
    ) -> Vec<(SetId, TrackRun, &'l [SamplePoint])> {
        let mut cut: Vec<(SetId, TrackRun, &[SamplePoint])> = Vec::with_capacity(track.runs.len());
        for run in &track.runs {
            let (mut at, first) = (run.span.start, cut.len());
            while at < run.span.end {
                let RequesterSet { paths, until } = self.requesters.who(role, track.thread, at);
                let until = until.max(at + NEXT).min(run.span.end);
                let set = self.set_of(paths);
                match cut.get_mut(first..).and_then(<[_]>::last_mut) {
                    Some((last, run, _)) if *last == set => run.span.end = until,
                    _ => cut.push((set, TrackRun { span: Span { start: at, end: until }, ..*run }, &[])),
                }
                at = until;
            }
        }
        for (_, run, points) in &mut cut {
            *points = track.inside(run);
        }
        cut
    }
}

/// Whether samples show a thread, often enough, in the stack in which it goes to sleep. One that hands work
/// over, does something else and waits only then comes to its wait in no time: what looks like one long call
/// up to the sleep is not, and neither is the way from the last sample.
#[expect(clippy::cast_precision_loss, reason = "times")]
fn is_seen(track: &Track, endings: &[SleepStart], points: usize) -> bool {
    let claimed = |ending: &SleepStart| {
        let before = track.points.partition_point(|point| point.at < ending.at).checked_sub(1);
        let run = track.runs.partition_point(|run| run.span.start < ending.at).checked_sub(1);
        let begin = run.and_then(|run| track.runs.get(run)).map_or(ending.at, |run| run.span.start);
        let begin =
            before.and_then(|point| track.points.get(point)).map_or(begin, |point| point.at.max(begin));
        let since = ending.since.max(begin);
        ending.at.ns_since(since) as f64 + 0.5 * since.ns_since(begin) as f64
    };
    let claimed: f64 = endings.iter().map(claimed).sum();
    let cpu_ns = track.runs.last().map_or(0, |run| run.cpu_ns.saturating_add(run.span.ns()));
    let of_point = cpu_ns as f64 / track.points.len().max(1) as f64;
    claimed <= MOST_UNSEEN * (points as f64 + BY_CHANCE) * of_point
}

/// Whose a time is whose call has no sample: that of the thread's nearest one.
fn nearest(track: &Track, span: Span) -> OwnerId {
    let after = track.points.partition_point(|point| point.at < span.start);
    let before = after.checked_sub(1).and_then(|i| track.points.get(i));
    let before = before.map(|point| (span.start.ns_since(point.at), point.owner));
    let after = track.points.get(after).map(|point| (point.at.ns_since(span.end), point.owner));
    before.into_iter().chain(after).min_by_key(|(ns, _)| *ns).map_or(track.unseen, |(_, owner)| owner)
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, SamplePoint, SleepStart, Span, ThreadKey, Track, TrackRun, is_seen, nearest};
    use energy_trace_model::ids::CpuId;

    const MS: u64 = 1_000_000;

    /// A hundred runs of 2 ms, each sampled in its middle and ended by a sleep in the stack of owner 2, in
    /// which it was for the last millisecond for sure.
    fn track() -> (Track, Vec<SleepStart>) {
        let at = KtimeNs::from_ns;
        let run = |i: u64| TrackRun {
            cpu: CpuId::new(0),
            span: Span { start: at(10 * i * MS), end: at((10 * i + 2) * MS) },
            cpu_ns: 2 * i * MS,
        };
        let point =
            |i: u64| SamplePoint { track: 0, at: at((10 * i + 1) * MS), cpu_ns: (2 * i + 1) * MS, owner: 1 };
        let ending =
            |i: u64| SleepStart { since: at((10 * i + 1) * MS), at: at((10 * i + 2) * MS), owner: 2 };
        let track = Track {
            thread: ThreadKey::new(0),
            runs: (0..100).map(run).collect(),
            points: (0..100).map(point).collect(),
            ends: vec![],
            unseen: 0,
        };
        (track, (0..100).map(ending).collect())
    }

    /// Half of the thread's time is claimed for where it sleeps, so half of its samples should show that: a
    /// quarter is still believed, and a few are not.
    #[test]
    fn stacks_of_sleeps_are_seen_in_samples() {
        let (track, endings) = track();
        assert!(is_seen(&track, &endings, 50) && is_seen(&track, &endings, 22));
        assert!(!is_seen(&track, &endings, 21) && !is_seen(&track, &endings, 1));
        assert!(is_seen(&track, &endings[..6], 0) && !is_seen(&track, &endings[..13], 0));
    }

    /// A time is the nearest sample's before it or behind it.
    #[test]
    fn times_far_from_samples() {
        let (mut track, _) = track();
        track.points.iter_mut().zip(10..).for_each(|(point, owner)| point.owner = owner);
        let at = |ms: u64| KtimeNs::from_ns(ms * MS);
        let of = |from, until| nearest(&track, Span { start: at(from), end: at(until) });
        assert_eq!([of(3, 4), of(8, 9), of(0, 0), of(12, 12)], [10, 11, 10, 11]);
        assert_eq!(of(2_000, 2_010), 109);
        track.points.clear();
        assert_eq!(nearest(&track, Span { start: at(0), end: at(1) }), track.unseen);
    }
}
