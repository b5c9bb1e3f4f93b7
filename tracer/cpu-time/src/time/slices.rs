//! Whose time it was: on-CPU slices, owned by the samples that fell into them.
//!
//! Time comes from `sched_switch`, exact to the nanosecond, never from the number of samples: on a loaded
//! virtual machine a 997 Hz timer delivered 480 samples a second, so `count · period` was off by half.
//! Samples only say what a thread was doing in a slice:
//!
//! ```text
//! slice      [----------a--------b----c---------)     a, b, c: samples of the thread that ran
//! owned by   [aaaaaaaaaaaaaa|bbbbbbb|cccccccccc)  Voronoi: cut half-way between neighbours
//! ```
//!
//! Neighbours are so on the thread's CPU time, across its sleeps and slices without a sample. Were slices
//! borders too, what always runs first after a sleep or last before it, for less than a sampling period, would
//! lack a quarter to a half of its time. What it still lacks, as ticks come by the clock, which goes on while a
//! thread sleeps, `borders` give it. Time of a thread without samples is `[unsampled]`, and so is time in
//! which no sample came though many were due (`unsampled`). So Σ owned + Σ unsampled = Σ slices, exactly. A
//! sample outside every slice owns no time but is counted.
//!
//! Slices of one CPU cannot overlap. Where they do, a switch was lost: the earlier one ends where the later
//! one begins, because the later one's start was seen. What the earlier one claimed beyond that is dropped
//! and the overlap counted.

use super::background::BackgroundProcesses;
use super::borders::Borders;
use super::inter_sample::{SamplePoint, TrackRun};
use super::owners::{Owner, OwnerId, OwnerTime, Owners, Segment};
use super::tracks::Track;
use super::unsampled::{SplitSlices, cut};
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::recording::record::{CpuOwner, Sample, Slice, Unsampled};
use std::collections::BTreeMap;

/// All time on CPUs within the recording's span, by the samples that own it.
#[derive(Debug, Default)]
pub struct SampledTime {
    /// Ordered by CPU and start, without overlap on a CPU.
    pub segments: Vec<Segment>,
    /// Owners; the first is `Owner::Other`.
    pub owners: Vec<OwnerTime>,
    /// Time whose owner needs no samples: background processes, and targets' where nobody was looking.
    pub certain: Vec<Segment>,
    /// One track a thread of the target.
    pub tracks: Vec<Track>,
    /// Where the time of samples ends.
    pub borders: Borders,
    /// Slices that began before the one before them ended.
    pub overlaps: u64,
}

impl SampledTime {
    /// From slices and samples in any order, which background processes are told apart, where nobody was
    /// looking, and the recording's span.
    pub fn new(
        slices: &[Slice],
        samples: &[Sample],
        background: &BackgroundProcesses,
        unseen: &[Unsampled],
        span: Span,
    ) -> Self {
        let (slices, overlaps) = disjoint_slices(slices, span);
        let SplitSlices { seen: slices, unseen } = cut(slices, unseen);
        let mut owners = Owners::new();
        let threads = by_thread(samples, &mut owners);
        let tracks = tracks(&slices, &threads, &mut owners);
        drop(threads);
        let borders = Borders::of(&tracks);
        let threads = (&tracks[..], &borders);
        let (segments, certain) = segments(&slices, &unseen, samples.len(), threads, background, &mut owners);
        Self { segments, owners: owners.list, certain, tracks, borders, overlaps }
    }
}

/// Who owns a slice that is not the target's.
fn background_owner(who: CpuOwner, background: &BackgroundProcesses) -> Owner {
    let CpuOwner::Background(key) = who else { return Owner::Other };
    background.owner(key)
}

/// Background processes' time.
fn certain(slices: &[Slice], background: &BackgroundProcesses, owners: &mut Owners) -> Vec<Segment> {
    let segment = |slice: &Slice| {
        let span = Span { start: slice.start, end: slice.end };
        let owner = owners.number(background_owner(slice.who, background));
        Segment { cpu: slice.cpu, span, owner }
    };
    slices.iter().filter(|slice| !matches!(slice.who, CpuOwner::Target(_))).map(segment).collect()
}

/// The segments of all slices in order, and those whose owner needs no samples; they make owners.
fn segments(
    slices: &[Slice],
    unseen: &[Slice],
    samples: usize,
    (tracks, borders): (&[Track], &Borders),
    background: &BackgroundProcesses,
    owners: &mut Owners,
) -> (Vec<Segment>, Vec<Segment>) {
    let mut segments = Vec::with_capacity(slices.len() + samples);
    let mut parts = vec![];
    for slice in slices {
        let span = Span { start: slice.start, end: slice.end };
        let CpuOwner::Target(thread) = slice.who else {
            let owner = owners.number(background_owner(slice.who, background));
            segments.push(owners.segment(slice.cpu, span, owner));
            continue;
        };
        let track = tracks.binary_search_by_key(&thread, |track| track.thread).map(|at| &tracks[at]);
        if let Some((track, run)) = track.ok().and_then(|track| Some((track, track.run(slice.cpu, span)?))) {
            let border = |one: &SamplePoint, next: &SamplePoint| borders.between(one, next);
            track.owned_parts(run, track.around(run), border, &mut parts);
        }
        segments.extend(parts.drain(..).map(|(part, owner)| owners.segment(slice.cpu, part, owner)));
    }
    let mut certain = certain(slices, background, owners);
    for slice in unseen {
        let CpuOwner::Target(thread) = slice.who else { continue };
        let span = Span { start: slice.start, end: slice.end };
        let owner = owners.number(Owner::Target(thread, None));
        certain.push(Segment { cpu: slice.cpu, span, owner });
        segments.push(owners.segment(slice.cpu, span, owner));
    }
    segments.sort_by_key(|segment: &Segment| (segment.cpu, segment.span));
    (segments, certain)
}

/// A track of each thread that ran, ordered by thread.
fn tracks(slices: &[Slice], threads: &BTreeMap<ThreadKey, OfThread>, owners: &mut Owners) -> Vec<Track> {
    let mut runs: Vec<(ThreadKey, TrackRun)> = Vec::new();
    for slice in slices {
        if let CpuOwner::Target(thread) = slice.who {
            let span = Span { start: slice.start, end: slice.end };
            runs.push((thread, TrackRun { cpu: slice.cpu, span, cpu_ns: 0 }));
        }
    }
    runs.sort_by_key(|(thread, run)| (*thread, run.span, run.cpu));
    let of_thread = |of_thread: &[(ThreadKey, TrackRun)]| {
        let &(thread, _) = of_thread.first()?;
        let mut runs: Vec<TrackRun> = of_thread.iter().map(|&(_, run)| run).collect();
        let points = threads.get(&thread).map(|samples| samples.point(&mut runs)).unwrap_or_default();
        let unseen = owners.number(Owner::Target(thread, None));
        Some(Track { thread, runs, points, ends: vec![], unseen })
    };
    runs.chunk_by(|a, b| a.0 == b.0).filter_map(of_thread).collect()
}

/// Slices clipped to the span, ordered by CPU and start, made disjoint; and how many had to be cut short for
/// it.
fn disjoint_slices(slices: &[Slice], span: Span) -> (Vec<Slice>, u64) {
    let mut ordered: Vec<Slice> = slices.iter().copied().filter(|slice| slice.start < slice.end).collect();
    ordered.sort_by_key(|slice| (slice.cpu, slice.start, slice.end));
    let mut overlaps = 0;
    let mut disjoint: Vec<Slice> = Vec::with_capacity(ordered.len());
    for slice in ordered {
        if let Some(before) = disjoint.last_mut()
            && before.cpu == slice.cpu
            && before.end > slice.start
        {
            overlaps += 1;
            before.end = slice.start;
        }
        disjoint.push(slice);
    }
    let clip = |slice: Slice| {
        let inside = Span::new(slice.start, slice.end).overlap(span)?;
        Some(Slice { start: inside.start, end: inside.end, ..slice })
    };
    (disjoint.into_iter().filter_map(clip).collect(), overlaps)
}

/// One thread's samples in time order: when, and the owner that each makes.
#[derive(Default)]
struct OfThread {
    at: Vec<KtimeNs>,
    owners: Vec<OwnerId>,
}

/// A thread's samples show few stacks again and again: so many of the last ones are remembered.
const RECENT: usize = 1_024;

/// The samples of each thread; they make owners, and are counted.
fn by_thread(samples: &[Sample], owners: &mut Owners) -> BTreeMap<ThreadKey, OfThread> {
    let mut threads: BTreeMap<ThreadKey, (Vec<KtimeNs>, Vec<StackId>)> = BTreeMap::new();
    for run in samples.chunk_by(|one, next| one.thread == next.thread) {
        let Some(first) = run.first() else { continue };
        let (at, stacks) = threads.entry(first.thread).or_default();
        at.extend(run.iter().map(|sample| sample.at));
        stacks.extend(run.iter().map(|sample| sample.stack));
    }
    let of_thread = |(thread, (at, stacks)): (ThreadKey, (Vec<KtimeNs>, Vec<StackId>))| {
        let (at, stacks) = in_order(at, stacks);
        let mut recent = [None; RECENT];
        let owner = |stack: StackId| {
            let place = &mut recent[stack.index() % RECENT];
            let known = place.filter(|(before, _)| *before == stack).map(|(_, owner)| owner);
            let owner = known.unwrap_or_else(|| owners.number(Owner::Target(thread, Some(stack))));
            owners.count(owner);
            *place = Some((stack, owner));
            owner
        };
        (thread, OfThread { at, owners: stacks.into_iter().map(owner).collect() })
    };
    threads.into_iter().map(of_thread).collect()
}

/// Both by time; what was at one moment stays as it was.
fn in_order(at: Vec<KtimeNs>, stacks: Vec<StackId>) -> (Vec<KtimeNs>, Vec<StackId>) {
    if at.is_sorted() {
        return (at, stacks);
    }
    let mut both: Vec<(KtimeNs, StackId)> = at.into_iter().zip(stacks).collect();
    both.sort_by_key(|(at, _)| *at);
    both.into_iter().unzip()
}

impl OfThread {
    /// Puts the thread's runs and samples on its CPU time.
    fn point(&self, runs: &mut [TrackRun]) -> Vec<SamplePoint> {
        let mut points = Vec::with_capacity(self.at.len());
        let mut samples = self.at.iter().zip(&self.owners).peekable();
        let mut before = 0_u64;
        for run in runs {
            run.cpu_ns = before;
            while samples.next_if(|(at, _)| **at < run.span.start).is_some() {}
            while let Some((&at, &owner)) = samples.next_if(|(at, _)| **at < run.span.end) {
                let cpu_ns = before.saturating_add(at.ns_since(run.span.start));
                points.push(SamplePoint { track: 0, at, cpu_ns, owner });
            }
            before = before.saturating_add(run.span.ns());
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::{BackgroundProcesses, OfThread, Owner, OwnerTime, SampledTime, Span, TrackRun};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
    use energy_trace_model::recording::record::{CpuOwner, Sample, Slice, StackStatus, Unsampled};

    const MS: u64 = 1_000_000;
    const ME: ThreadKey = ThreadKey::new(0);
    const ALWAYS: Span = Span { start: KtimeNs::from_ns(0), end: KtimeNs::from_ns(u64::MAX) };

    fn slice(cpu: u32, from_ms: u64, to_ms: u64) -> Slice {
        let at = |ms| KtimeNs::from_ns(ms * MS);
        Slice { cpu: CpuId::new(cpu), who: CpuOwner::Target(ME), start: at(from_ms), end: at(to_ms) }
    }

    fn sample(ms: u64, stack: u32) -> Sample {
        Sample {
            at: KtimeNs::from_ns(ms * MS),
            cpu: CpuId::new(0),
            thread: ME,
            stack: StackId::new(stack),
            status: StackStatus::Complete,
        }
    }

    /// What each stack of the thread owns, in ms, in the order in which they were met; `None` is unsampled.
    fn owned(time: &SampledTime) -> Vec<(Option<u32>, u64, u64)> {
        let of_me = |o: &OwnerTime| match o.owner {
            Owner::Target(_, stack) => Some((stack.map(StackId::get), o.time_ns / MS, o.samples)),
            Owner::Other | Owner::Background(_) => None,
        };
        time.owners.iter().filter_map(of_me).filter(|(_, ms, samples)| (*ms, *samples) != (0, 0)).collect()
    }

    /// Each sample owns its half of the way to its neighbours, and the ends of the slice.
    #[test]
    fn samples_own_their_surroundings() {
        let time = SampledTime::new(
            &[slice(0, 100, 200)],
            &[sample(110, 1), sample(150, 2), sample(180, 1)],
            &BackgroundProcesses::default(),
            &[],
            ALWAYS,
        );
        assert_eq!(owned(&time), [(Some(1), 65, 2), (Some(2), 35, 1)]);
    }

    /// A slice without a sample is owned by the thread's samples before it and behind it, however far.
    #[test]
    fn empty_slices_take_near_samples() {
        let slices = [slice(0, 80, 100), slice(0, 150, 151), slice(0, 160, 180), slice(0, 700, 707)];
        let time = SampledTime::new(
            &slices,
            &[sample(90, 1), sample(175, 2)],
            &BackgroundProcesses::default(),
            &[],
            ALWAYS,
        );
        assert_eq!(owned(&time), [(Some(1), 23, 1), (Some(2), 25, 1)]);
    }

    /// A sample outside every slice owns no time and is still counted.
    #[test]
    fn stray_samples_count() {
        let time = SampledTime::new(&[], &[sample(5, 9)], &BackgroundProcesses::default(), &[], ALWAYS);
        assert_eq!(owned(&time), [(Some(9), 0, 1)]);
    }

    /// Overlapping slices of a CPU: the later start wins and the overlap is counted; other CPUs are not
    /// concerned.
    #[test]
    fn overlaps_are_cut_and_counted() {
        let slices = [slice(0, 0, 100), slice(0, 40, 60), slice(1, 0, 100)];
        let time = SampledTime::new(&slices, &[], &BackgroundProcesses::default(), &[], ALWAYS);
        assert_eq!(time.overlaps, 1);
        assert_eq!(owned(&time), [(None, 40 + 20 + 100, 0)]);
    }

    /// A slice of twenty seconds with one sample, because the machine stood still: the sample has its own
    /// periods, the rest is nobody's.
    #[test]
    fn a_sample_does_not_stand_for_a_pause() {
        let pause = |from_ms: u64, to_ms: u64| {
            let at = |ms| KtimeNs::from_ns(ms * MS);
            Unsampled { cpu: CpuId::new(0), start: at(from_ms), end: at(to_ms) }
        };
        let pauses = [pause(1_000, 14_990), pause(15_010, 21_000)];
        let (slices, samples) = ([slice(0, 1_000, 21_000)], [sample(15_000, 1)]);
        let time = SampledTime::new(&slices, &samples, &BackgroundProcesses::default(), &pauses, ALWAYS);
        assert_eq!(owned(&time), [(Some(1), 20, 1), (None, 19_980, 0)]);
        assert!(time.segments.is_sorted_by_key(|segment| (segment.cpu, segment.span)));
        let slices: u64 = time.certain.iter().map(|slice| slice.span.ns()).sum();
        let runs: u64 = time.tracks.iter().flat_map(|track| &track.runs).map(|run| run.span.ns()).sum();
        assert_eq!((slices / MS, runs / MS), (19_980, 20));
    }

    /// Only time within the recording's span counts.
    #[test]
    fn slices_are_clipped() {
        let span = Span { start: KtimeNs::from_ns(20 * MS), end: KtimeNs::from_ns(70 * MS) };
        let time = SampledTime::new(
            &[slice(0, 0, 30), slice(0, 60, 100), slice(0, 80, 90)],
            &[],
            &BackgroundProcesses::default(),
            &[],
            span,
        );
        assert_eq!(owned(&time), [(None, 20, 0)]);
    }

    fn of_thread(samples: &[(u64, u32)]) -> OfThread {
        let (at, owners) = samples.iter().map(|&(at, owner)| (KtimeNs::from_ns(at), owner)).unzip();
        OfThread { at, owners }
    }

    fn ns(from: u64, until: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(until) }
    }

    /// Samples within runs stand on the thread's CPU time, those between two runs nowhere.
    #[test]
    fn samples_on_cpu_time() {
        let run = |from, until| TrackRun { cpu: CpuId::new(0), span: ns(from, until), cpu_ns: 99 };
        let mut runs = [run(0, 10), run(20, 30)];
        let points = of_thread(&[(5, 1), (10, 2), (15, 2), (20, 3), (29, 4), (30, 5)]).point(&mut runs);
        let of: Vec<_> = points.iter().map(|point| (point.at.as_ns(), point.cpu_ns, point.owner)).collect();
        assert_eq!(of, [(5, 5, 1), (20, 10, 3), (29, 19, 4)]);
        assert_eq!(runs.map(|run| run.cpu_ns), [0, 10]);
    }
}
