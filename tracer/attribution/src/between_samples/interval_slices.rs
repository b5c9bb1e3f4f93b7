//! A domain's time, cut at each sample and at each reading: what lies between two of both.
//!
//! There are as many as samples, and a few more. So they are kept by columns: of each the slice between
//! samples that it is cut from, which says the rest together with its interval, and what else power depends
//! on only where it does. Leaves out what was done in it (`markov_bridge`).

use crate::time::compact_slices::{DomainSlices, InterSampleSlice, Lookup};
use crate::time::conditions::Conditions;
use crate::time::inter_sample::{Ends, NO_GAP, NO_TRACK, NOBODY, SamplePoint};
use crate::time::on_cpus::OnCpu as _;
use crate::time::owners::OwnerId;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use std::ops::Range;

/// That part of a slice between samples which lies in one interval between readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalSlice {
    pub(crate) interval: u32,
    pub(crate) track: u32,
    /// Its middle.
    pub(crate) at: KtimeNs,
    /// The sample before it, `NOBODY` where only the one behind it is near; then `before_ns` is the distance
    /// to that.
    pub(crate) left: OwnerId,
    pub(crate) right: OwnerId,
    pub(crate) before_ns: u64,
    pub(crate) ns: u64,
    pub(crate) after_ns: u64,
    /// The position among all points of the sample behind it in time (`Ends::gap`).
    pub(crate) gap: u32,
    /// Whether it stands the other way round: the sample behind it in time on the left.
    pub(crate) reversed: bool,
    /// How long the thread was off its CPU between this and the sample on either side.
    pub(crate) slept_before_ns: u64,
    pub(crate) slept_after_ns: u64,
    /// How busy the domain's other CPUs were beside it, from 0 to about 1 (`contention`); 0 where that makes
    /// no difference.
    pub(crate) contention: f64,
    /// What power is there, in parts of a lone thread's at the mean clock.
    pub(crate) weight: f64,
}

impl IntervalSlice {
    /// What a slice between samples has in common with an interval.
    fn new(interval: usize, (span, ends): (Span, Ends), common: Span) -> Self {
        let before_ns = ends.left.ns + common.start.ns_since(span.start);
        let after_ns = ends.right.ns + span.end.ns_since(common.end);
        let slice = Self {
            interval: u32::try_from(interval).unwrap_or(u32::MAX),
            track: ends.track,
            at: common.start.midpoint(common.end),
            left: ends.left.owner,
            right: ends.right.owner,
            before_ns,
            ns: common.ns(),
            after_ns,
            gap: ends.gap,
            reversed: false,
            slept_before_ns: ends.left.slept_ns,
            slept_after_ns: ends.right.slept_ns,
            contention: 0.0,
            weight: 1.0,
        };
        // Backwards in time the chain is the same: what is known stands on the left.
        if slice.left == NOBODY { slice.turned() } else { slice }
    }

    /// The other way round.
    fn turned(self) -> Self {
        Self {
            left: self.right,
            right: self.left,
            before_ns: self.after_ns,
            after_ns: self.before_ns,
            slept_before_ns: self.slept_after_ns,
            slept_after_ns: self.slept_before_ns,
            reversed: !self.reversed,
            ..self
        }
    }

    /// The same if only every other sample had been taken: those whose position is odd, or even. Neighbours
    /// are one of each.
    pub(crate) fn thinned(self, points: &[SamplePoint], odd: bool) -> Self {
        let forward = if self.reversed { self.turned() } else { self };
        let is_kept = |position: usize| (position % 2 == 1) == odd;
        let of_track = |position: usize| points.get(position).filter(|point| point.track == self.track);
        let (before, behind) = ((self.gap as usize).checked_sub(1), self.gap as usize);
        let mut thinned = forward;
        if let Some(before) = before.filter(|&before| forward.left != NOBODY && !is_kept(before)) {
            let pair = of_track(before).zip(before.checked_sub(1).and_then(of_track));
            let awake = pair.map_or(0, |(near, far)| near.cpu_ns.saturating_sub(far.cpu_ns));
            thinned.left = pair.map_or(NOBODY, |(_, far)| far.owner);
            thinned.before_ns = thinned.before_ns.saturating_add(awake);
            let apart = pair.map_or(0, |(near, far)| near.at.ns_since(far.at));
            thinned.slept_before_ns = thinned.slept_before_ns.saturating_add(apart.saturating_sub(awake));
        }
        if forward.right != NOBODY && !is_kept(behind) {
            let pair = of_track(behind).zip(of_track(behind + 1));
            let awake = pair.map_or(0, |(near, far)| far.cpu_ns.saturating_sub(near.cpu_ns));
            thinned.right = pair.map_or(NOBODY, |(_, far)| far.owner);
            thinned.after_ns = thinned.after_ns.saturating_add(awake);
            let apart = pair.map_or(0, |(near, far)| far.at.ns_since(near.at));
            thinned.slept_after_ns = thinned.slept_after_ns.saturating_add(apart.saturating_sub(awake));
        }
        match (thinned.left, thinned.right) {
            _ if self.track == NO_TRACK || self.gap == NO_GAP => self,
            (NOBODY, NOBODY) => self,
            (NOBODY, _) => thinned.turned(),
            _ => thinned,
        }
    }

    /// Its time in seconds as its energy goes: less where a core is shared or its clock is low.
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    pub(crate) const fn seconds(&self) -> f64 {
        self.weight * self.ns as f64 / 1e9
    }
}

/// So long a time around a moment.
fn around(at: KtimeNs, ns: u64) -> Span {
    let half = ns / 2;
    let start = KtimeNs::from_ns(at.as_ns().saturating_sub(half));
    Span { start, end: at + std::time::Duration::from_nanos(half) }
}

/// All slices of a domain in its intervals, by interval, track and time.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalSlices<'p> {
    slices: &'p [InterSampleSlice],
    lookup: Lookup<'p>,
    /// The intervals, and where the slices of each begin; behind them the number of all.
    spans: Vec<Span>,
    starts: Vec<usize>,
    /// The position of each one's slice between samples.
    of_slice: Vec<u32>,
    /// For what part of each another hardware thread of the core was busy; empty where no cores are shared.
    shared: Vec<f64>,
    /// The clock of each one's CPU, in parts of the mean (`dvfs`); empty where none is known.
    clock: Vec<f64>,
    /// As `IntervalSlice` has them; empty where no other CPU was busy, and where each has all of its power.
    contention: Vec<f64>,
    weight: Vec<f64>,
}

/// Some intervals' slices while they are found.
#[derive(Default)]
struct IntervalChunk {
    /// How many each interval has.
    counts: Vec<usize>,
    of_slice: Vec<u32>,
    shared: Vec<f64>,
    clock: Vec<f64>,
}

impl<'p> IntervalSlices<'p> {
    /// None at all.
    pub(crate) const NONE: &'static IntervalSlices<'static> = &IntervalSlices {
        slices: &[],
        lookup: Lookup::NOTHING,
        spans: vec![],
        starts: vec![],
        of_slice: vec![],
        shared: vec![],
        contention: vec![],
        clock: vec![],
        weight: vec![],
    };

    /// Of slices in intervals, which are in order and do not overlap.
    pub(crate) fn new(
        intervals: &[EnergyInterval],
        slices: &DomainSlices<'p>,
        conditions: &Conditions,
    ) -> Self {
        let spans: Vec<Span> = intervals.iter().map(|interval| interval.span).collect();
        let (on_cpus, lookup) = (&slices.on_cpus, slices.lookup);
        let found = on_cpus.in_chunks(&spans, |intervals| {
            let mut chunk = IntervalChunk::default();
            let mut order = vec![];
            intervals.each(|_, here| {
                in_order(here, on_cpus.all(), lookup, &mut order);
                chunk.add(here, on_cpus.all(), conditions);
            });
            chunk
        });
        let mut slices = Self { slices: on_cpus.all(), lookup, spans, starts: vec![0], ..Self::default() };
        slices.of_slice.reserve_exact(found.iter().map(|chunk| chunk.of_slice.len()).sum());
        for chunk in found {
            for count in chunk.counts {
                slices.starts.push(slices.starts.last().map_or(0, |last| last + count));
            }
            slices.of_slice.extend(chunk.of_slice);
            slices.shared.extend(chunk.shared);
            slices.clock.extend(chunk.clock);
        }
        slices
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.of_slice.len()
    }

    /// How many intervals there are.
    pub(crate) const fn intervals(&self) -> usize {
        self.spans.len()
    }

    /// How many there are in some intervals.
    pub(crate) fn count_in(&self, intervals: &Range<usize>) -> usize {
        let until = |interval: usize| self.starts.get(interval).copied().unwrap_or(self.len());
        until(intervals.end).saturating_sub(until(intervals.start))
    }

    /// Whether another hardware thread of a core was ever busy beside one.
    pub(crate) fn share_cores(&self) -> bool {
        self.shared.iter().any(|shared| *shared > 0.0)
    }

    /// The clock of each; nothing where all have the mean.
    pub(crate) fn clocks(&self) -> impl Iterator<Item = f64> + '_ {
        self.clock.iter().copied()
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IntervalSlice> + '_ {
        self.of_intervals(0..self.spans.len())
    }

    /// Those of some intervals, in order.
    pub(crate) fn of_intervals(&self, intervals: Range<usize>) -> impl Iterator<Item = IntervalSlice> + '_ {
        intervals.flat_map(|interval| self.of_interval(interval))
    }

    /// Those of one interval, by track and time.
    pub(crate) fn of_interval(&self, interval: usize) -> impl Iterator<Item = IntervalSlice> + '_ {
        self.times_in(interval).map(move |(at, slice, common)| self.slice(interval, at, slice, common))
    }

    /// Those of one interval whose time in it is looked for.
    pub(crate) fn of_times(
        &self,
        interval: usize,
        is_wanted: impl Fn(Span) -> bool,
    ) -> impl Iterator<Item = IntervalSlice> {
        let wanted = self.times_in(interval).filter(move |(_, _, common)| is_wanted(*common));
        wanted.map(move |(at, slice, common)| self.slice(interval, at, slice, common))
    }

    /// The position, slice and time of each of an interval.
    fn times_in(&self, interval: usize) -> impl Iterator<Item = (usize, &'p InterSampleSlice, Span)> + '_ {
        let range = self.starts.get(interval).zip(self.starts.get(interval + 1));
        let range = range.map_or(0..0, |(from, to)| *from..*to);
        range.filter_map(move |at| {
            let slice = self.slices.get(*self.of_slice.get(at)? as usize)?;
            Some((at, slice, self.spans.get(interval)?.overlap(slice.span())?))
        })
    }

    fn slice(&self, interval: usize, at: usize, slice: &InterSampleSlice, common: Span) -> IntervalSlice {
        let of = |column: &[f64], usual| column.get(at).copied().unwrap_or(usual);
        IntervalSlice {
            contention: of(&self.contention, 0.0),
            weight: of(&self.weight, 1.0),
            ..IntervalSlice::new(interval, (slice.span(), self.lookup.ends(slice)), common)
        }
    }

    /// Weighs each by `weight`, of what it shares of its core and of its clock.
    pub(crate) fn weigh(&mut self, weight: impl Fn(f64, f64) -> f64) {
        let of = |column: &[f64], at, usual| column.get(at).copied().unwrap_or(usual);
        let count = if self.shared.is_empty() && self.clock.is_empty() { 0 } else { self.len() };
        let weights = (0..count).map(|at| weight(of(&self.shared, at, 0.0), of(&self.clock, at, 1.0)));
        self.weight = weights.collect();
    }

    /// Notes how busy other CPUs were meanwhile.
    pub(crate) fn set_contention(&mut self, mut contention: impl FnMut(Span) -> f64) {
        let times = (0..self.spans.len()).flat_map(|interval| self.times_in(interval));
        let of = |common: Span| around(common.start.midpoint(common.end), common.ns());
        self.contention = times.map(|(_, _, common)| contention(of(common))).collect();
    }
}

impl IntervalChunk {
    /// Adds an interval, and what lies in it.
    fn add(&mut self, here: &[(usize, Span)], all: &[InterSampleSlice], conditions: &Conditions) {
        self.counts.push(here.len());
        self.of_slice.extend(here.iter().map(|&(at, _)| u32::try_from(at).unwrap_or(u32::MAX)));
        if conditions.share_cores() {
            self.shared.extend(here.iter().map(|&(at, span)| conditions.shared(all[at].cpu(), span)));
        }
        if conditions.have_clocks() {
            self.clock.extend(here.iter().map(|&(at, span)| conditions.clock(all[at].cpu(), span)));
        }
    }
}

/// Sorts what lies in an interval by track and time; `order` is room for it.
fn in_order(
    here: &mut [(usize, Span)],
    all: &[InterSampleSlice],
    lookup: Lookup<'_>,
    order: &mut Vec<(u32, KtimeNs, usize, Span)>,
) {
    order.clear();
    let of =
        |&(at, span): &(usize, Span)| (lookup.ends(&all[at]).track, span.start.midpoint(span.end), at, span);
    order.extend(here.iter().map(of));
    order.sort_unstable();
    here.iter_mut().zip(order).for_each(|(here, &mut (_, _, at, span))| *here = (at, span));
}

#[cfg(test)]
mod tests {
    use super::{
        Conditions, Ends, EnergyInterval, IntervalSlice, IntervalSlices, KtimeNs, NO_GAP, NO_TRACK, NOBODY,
        SamplePoint, Span,
    };
    use crate::tests::slices::{certain_slices, domain_slices};
    use crate::tests::vectors::near;
    use crate::time::inter_sample::Neighbour;
    use crate::time::owners::Segment;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::recording::Recording;
    use energy_trace_model::units::{KiloHertz, MicroJoules};

    impl IntervalSlice {
        /// Nobody's, at no time.
        pub(crate) fn nobodys() -> Self {
            let nothing = Span { start: KtimeNs::default(), end: KtimeNs::default() };
            Self::new(0, (nothing, Ends::certain(0)), nothing)
        }
    }

    impl IntervalSlices<'static> {
        /// These, in their order. What they are cut from is never freed.
        pub(crate) fn of_slices(listed: &[IntervalSlice]) -> Self {
            let slice = |slice: &IntervalSlice| {
                let forward = if slice.reversed { slice.turned() } else { *slice };
                let end = |owner, ns, slept_ns| Neighbour { owner, ns, slept_ns };
                let start = KtimeNs::from_ns(slice.at.as_ns().saturating_sub(slice.ns / 2));
                let ends = Ends {
                    track: slice.track,
                    left: end(forward.left, forward.before_ns, forward.slept_before_ns),
                    right: end(forward.right, forward.after_ns, forward.slept_after_ns),
                    gap: slice.gap,
                };
                (CpuId::new(0), Span { start, end: KtimeNs::from_ns(start.as_ns() + slice.ns) }, ends)
            };
            let slices = domain_slices(listed.iter().map(slice));
            let intervals = listed.last().map_or(0, |last| last.interval + 1);
            let always = Span { start: KtimeNs::default(), end: KtimeNs::from_ns(u64::MAX) };
            let until = |interval: u32| listed.partition_point(|slice| slice.interval < interval);
            Self {
                slices: slices.on_cpus.all(),
                lookup: slices.lookup,
                spans: vec![always; intervals as usize],
                starts: (0..=intervals).map(until).collect(),
                of_slice: (0..).take(listed.len()).collect(),
                contention: listed.iter().map(|slice| slice.contention).collect(),
                weight: listed.iter().map(|slice| slice.weight).collect(),
                ..Self::default()
            }
        }

        /// Of one, what it shares of its core, and its clock.
        pub(crate) fn under(slice: &IntervalSlice, shared: f64, clock: f64) -> Self {
            Self { shared: vec![shared], clock: vec![clock], ..Self::of_slices(&[*slice]) }
        }
    }

    /// Samples of a track at 0, 10, 30 and 60 ms on the clock, after 0, 10, 20 and 30 ms of CPU time, and one
    /// of another track.
    fn five() -> [SamplePoint; 5] {
        let point = |track, at: u64, cpu: u64, owner| SamplePoint {
            track,
            at: KtimeNs::from_ns(at * 1_000_000),
            cpu_ns: cpu * 1_000_000,
            owner,
        };
        [
            point(0, 0, 0, 10),
            point(0, 10, 10, 11),
            point(0, 30, 20, 12),
            point(0, 60, 30, 13),
            point(1, 70, 0, 14),
        ]
    }

    /// Without the sample on one side the next one further away is there, with its distance awake and asleep;
    /// without any, the other side.
    #[test]
    fn every_other_sample() {
        // Between the samples 1 and 2: 10 ms of CPU time, of which this is from 2 to 5.
        let between = IntervalSlice {
            left: 11,
            right: 12,
            gap: 2,
            slept_after_ns: 10_000_000,
            track: 0,
            before_ns: 2_000_000,
            ns: 3_000_000,
            after_ns: 5_000_000,
            ..IntervalSlice::nobodys()
        };
        let ends = |slice: IntervalSlice| {
            (slice.left, slice.before_ns / 1_000_000, slice.right, slice.after_ns / 1_000_000)
        };
        let odd = between.thinned(&five(), true);
        assert_eq!(ends(odd), (11, 2, 13, 15));
        assert_eq!((odd.slept_before_ns, odd.slept_after_ns), (0, 30_000_000));
        let even = between.thinned(&five(), false);
        assert_eq!(ends(even), (10, 12, 12, 5));
        assert_eq!((even.slept_before_ns, even.slept_after_ns, even.reversed), (0, 10_000_000, false));
        // Between the samples 2 and 3, the last of their track: without it only the one before is there.
        let last = IntervalSlice { left: 12, right: 13, gap: 3, ..between };
        assert_eq!(ends(last.thinned(&five(), false)), (12, 2, NOBODY, 5));
        // Without the first sample of a track the second one is there alone, on the left as what is known is.
        let first =
            IntervalSlice { left: 10, right: 11, gap: 1, slept_after_ns: 0, slept_before_ns: 7, ..between };
        let turned = first.thinned(&five(), true);
        assert_eq!(ends(turned), (11, 5, NOBODY, 2));
        assert_eq!((turned.reversed, turned.slept_after_ns), (true, 7));
        // The same slice when it stood the other way round already.
        assert_eq!(ends(first.turned().thinned(&five(), true)), (11, 5, NOBODY, 2));
        assert_eq!(ends(between.turned().thinned(&five(), true)), (11, 2, 13, 15));
        // A track's only sample, before it or behind it, stays what is known.
        let only = SamplePoint { track: 7, ..five()[4] };
        let single = IntervalSlice { track: 7, left: 14, right: NOBODY, gap: 1, ..between };
        assert_eq!(ends(single.thinned(&[only], true)), (14, 2, NOBODY, 5));
        let certain = IntervalSlice { track: NO_TRACK, ..between };
        assert_eq!(ends(certain.thinned(&five(), true)), ends(certain));
        let alone = IntervalSlice { gap: NO_GAP, ..between };
        assert_eq!(ends(alone.thinned(&five(), true)), ends(alone));
    }

    /// A slice from 5 to 45 ms in intervals of 20 ms is three slices: their distances to the samples at its
    /// ends add up. Time before all intervals and behind them is in none.
    #[test]
    fn slices_are_cut_at_readings() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let interval = |i: u64| EnergyInterval {
            span: Span { start: ms(20 * i), end: ms(20 * i + 20) },
            energy: MicroJoules::ZERO,
        };
        let end = |owner, ns: u64| Neighbour { owner, ns: ns * 1_000_000, slept_ns: ns };
        let slice = |cpu, from, to, left, right| {
            let span = Span { start: ms(from), end: ms(to) };
            (CpuId::new(cpu), span, Ends { track: 3, left, right, gap: 9 })
        };
        let slices = [
            slice(0, 5, 45, end(1, 2), end(2, 4)),
            slice(1, 0, 10, end(NOBODY, 0), end(2, 6)),
            slice(1, 55, 75, end(1, 0), end(2, 0)),
        ];
        let slices = domain_slices(slices.into_iter());
        let found = IntervalSlices::new(&[0_u64, 1, 2].map(interval), &slices, &Conditions::default());
        let found: Vec<IntervalSlice> = found.iter().collect();
        let of = |slice: &IntervalSlice| {
            let ms = [slice.before_ns, slice.ns, slice.after_ns].map(|ns| ns / 1_000_000);
            (slice.interval, slice.left, slice.right, ms, slice.at.as_ns() / 100_000)
        };
        let expected = [
            (0, 2, NOBODY, [6, 10, 0], 50),
            (0, 1, 2, [2, 15, 29], 125),
            (1, 1, 2, [17, 20, 9], 300),
            (2, 1, 2, [37, 5, 4], 425),
            (2, 1, 2, [0, 5, 15], 575),
        ];
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!((found[0].reversed, found[1].reversed), (true, false));
        assert_eq!((found[1].slept_before_ns, found[1].slept_after_ns, found[1].gap), (2, 4, 9));
        assert!((IntervalSlice { weight: 0.5, ..found[1] }.seconds() - 0.007_5).abs() < 1e-12);
    }

    /// Slices know the clock of their CPU, and for how much of them the other hardware thread of its core was
    /// busy.
    #[test]
    fn parts_know_their_conditions() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let span = |from, until| Span { start: ms(from), end: ms(until) };
        let (slow, fast) = (CpuId::new(0), CpuId::new(1));
        let segments =
            [(slow, span(0, 20)), (fast, span(5, 10))].map(|(cpu, span)| Segment { cpu, span, owner: 1 });
        let clock = |mhz: u32| {
            vec![(ms(1), KiloHertz::from_khz(mhz * 1_000)), (ms(6), KiloHertz::from_khz(mhz * 1_000))]
        };
        let recording = Recording {
            cores: vec![vec![slow, fast]],
            clocks: [(slow, clock(1_000)), (fast, clock(3_000))].into_iter().collect(),
            ..Recording::default()
        };
        let interval = EnergyInterval { span: span(0, 20), energy: MicroJoules::ZERO };
        let conditions = Conditions::of(&recording, &segments);
        let found = IntervalSlices::new(&[interval], &certain_slices(&segments), &conditions);
        let of = found.iter().zip(found.clock.iter().zip(&found.shared));
        let of: Vec<_> = of.map(|(slice, (clock, shared))| (slice.ns / 1_000_000, *clock, *shared)).collect();
        // The fast one idled at its first reading: 1, 1 and 3 GHz are 5 / 3 on average.
        assert_eq!(of.iter().map(|of| (of.0, of.2)).collect::<Vec<_>>(), [(5, 1.0), (20, 0.25)]);
        near(&[of[0].1, of[1].1], &[1.8, 0.6], 1e-12);
    }
}
