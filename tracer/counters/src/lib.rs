//! From readings of a counter to intervals of energy.
//!
//! A counter says how much energy has gone by since some past moment; what attribution needs is how much went
//! by between two moments. Two good readings that follow each other make an `EnergyInterval`; a stretch of
//! which nothing is known makes a `Gap`. Together they tile the recording's span without overlap:
//!
//! ```text
//! span      |------------------------------------------------|
//! readings     o----o----o    x    o----o  (back to 0)  o----o      x: failed
//! intervals    |----|----|---------|----|               |----|
//! gaps      |--|                        |---------------|    |--|
//! ```
//!
//! A failed reading costs nothing: the counter goes on counting, so its two neighbours bound one longer
//! interval. A counter that went back is a wrap or a gap, decided in one place (`counter`). A counter that
//! the machine's physics or its own values contradict is not believed in that stretch of time: `physics`
//! knows what a domain can do, `believed` tells good readings from others, `lasting` looks at seconds. What
//! it showed there is nobody's, or, where no hardware draws that much, no energy at all. An interval that
//! reaches over an end of the span is split in proportion to time: the session takes its first and last
//! reading just outside the span, so this concerns milliseconds.
//!
//! Slow counters (`DomainClass::Gpu`): NVML's energy counter steps about every 100 ms (measured by the
//! ml.energy project), so polls between two steps repeat the old value. Such polls are merged: the energy of
//! a step belongs to the whole time since the step before. On a CPU package, whose counter moves every
//! millisecond, a zero difference is a real zero and stays.
//!
//! Domains without a counter get their intervals from a model (`model`).
//!
//! ```
//! use energy_trace_counters::grown;
//!
//! assert_eq!(grown(40, 42), Some(2));
//! assert_eq!(grown(42, 0), None);
//! ```
//!
//! Pure: no files, no clock. Leaves out who used the energy (package `attribution`).

mod believed;
mod counter;
mod hanging;
mod lag;
mod lasting;
mod leap;
mod model;
mod physics;
mod readings;

pub use counter::grown;
use energy_trace_model::collections::Order as _;
pub use lag::{Lag, fit_lag, shift};
pub use model::{GRID_NS, LoadCurve, intervals_of_model};
pub use physics::Physics;
pub use readings::intervals_of_readings;

use energy_trace_model::clock::KtimeNs;
pub use energy_trace_model::profile::diagnostics::GapReason;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// A stretch of time, `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its first moment.
    pub start: KtimeNs,
    /// The moment after its last.
    pub end: KtimeNs,
}

impl Span {
    /// From its ends; empty when they are the wrong way round.
    pub fn new(start: KtimeNs, end: KtimeNs) -> Self {
        Self { start, end: end.max(start) }
    }

    /// Its length in nanoseconds.
    pub const fn ns(self) -> u64 {
        self.end.ns_since(self.start)
    }

    /// What it has in common with `other`, where that is more than nothing.
    pub fn overlap(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }
}

/// Energy that a domain used in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyInterval {
    /// When.
    pub span: Span,
    /// How much.
    pub energy: MicroJoules,
}

/// From the first of these to the last, which are in order.
fn span_of(intervals: &[EnergyInterval]) -> Span {
    let ends = intervals.first().zip(intervals.last());
    ends.map_or_else(Span::default, |(first, last)| Span::new(first.span.start, last.span.end))
}

impl EnergyInterval {
    /// Its mean power in watts.
    pub fn watts(&self) -> f64 {
        believed::watts(self.energy, self.span.ns())
    }

    /// The part of it that lies in `span`: energy is taken as even over the interval.
    fn inside(self, span: Span) -> Option<Self> {
        let inside = self.span.overlap(span)?;
        let parts = self.energy.split(&[inside.ns(), self.span.ns() - inside.ns()]);
        Some(Self {
            span: inside,
            energy: parts.and_then(|parts| parts.first().copied()).unwrap_or(self.energy),
        })
    }
}

/// A stretch of which the counter says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When.
    pub span: Span,
    /// Why.
    pub why: GapReason,
}

/// What is known about a domain's energy over the recording's span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Energy, in time order, without overlap.
    pub intervals: Vec<EnergyInterval>,
    /// What is not known, in time order.
    pub gaps: Vec<Gap>,
    /// Readings that failed and were bridged.
    pub failed: u64,
    /// Readings that contradicted those around them.
    pub left_out: u64,
    /// Energy that the counter showed in gaps in which it is not believed, and that is nobody's.
    pub doubted: Vec<EnergyInterval>,
}

impl Timeline {
    /// The same without the intervals in which the machine woke up from sleep: what a counter did while it
    /// slept is not to be told from what it did before and after.
    pub fn without_sleep(mut self, woke: &[KtimeNs]) -> Self {
        let slept = |span: Span| woke.iter().any(|&at| span.start < at && at <= span.end);
        let (gone, kept) = self.intervals.into_iter().partition::<Vec<_>, _>(|interval| slept(interval.span));
        self.intervals = kept;
        self.gaps.iter_mut().filter(|gap| slept(gap.span)).for_each(|gap| gap.why = GapReason::Slept);
        self.gaps.extend(gone.into_iter().map(|interval| Gap { span: interval.span, why: GapReason::Slept }));
        self.gaps.order_by_key(|gap| gap.span);
        self
    }

    /// The same without what another domain drew in each interval, which this one's counter holds as well. Where that is not known for a tenth of an
    /// interval, its energy is nobody's.
    #[must_use]
    pub fn less(mut self, held: &Self) -> Self {
        let mut before = vec![MicroJoules::ZERO];
        before.extend(held.intervals.iter().scan(MicroJoules::ZERO, |sum, interval| {
            *sum += interval.energy;
            Some(*sum)
        }));
        let until = |at| {
            let whole = held.intervals.partition_point(|interval| interval.span.end <= at);
            let begun = held.intervals.get(whole).and_then(|of| of.inside(Span::new(of.span.start, at)));
            before[whole] + begun.map_or(MicroJoules::ZERO, |begun| begun.energy)
        };
        for EnergyInterval { span, energy } in &mut self.intervals {
            *energy -= until(span.end) - until(span.start);
        }
        self.doubt_beside(&held.gaps);
        self
    }

    /// Believes no interval of which a tenth lies in gaps of a counter that it was compared with.
    fn doubt_beside(&mut self, gaps: &[Gap]) {
        let unknown =
            |span: Span| gaps.iter().filter_map(move |gap| Some((gap.span.overlap(span)?.ns(), gap.why)));
        let why = |span: Span| {
            let missing: u64 = unknown(span).map(|(ns, _)| ns).sum();
            unknown(span).next().filter(|_| missing.saturating_mul(10) > span.ns()).map(|(_, why)| why)
        };
        let doubted = self.intervals.extract_if(.., |interval| why(interval.span).is_some());
        self.doubted.extend(doubted.inspect(|of| {
            self.gaps.extend(why(of.span).map(|why| Gap { span: of.span, why }));
        }));
        self.gaps.order_by_key(|gap| gap.span);
        self.doubted.order_by_key(|doubted| doubted.span);
    }

    /// For how long it is not known what was drawn, and why, in nanoseconds.
    pub fn missing_ns(&self) -> BTreeMap<GapReason, u64> {
        let mut missing: BTreeMap<GapReason, u64> = BTreeMap::new();
        for gap in &self.gaps {
            *missing.entry(gap.why).or_default() += gap.span.ns();
        }
        missing
    }

    /// All energy in it.
    pub fn energy(&self) -> MicroJoules {
        self.intervals.iter().map(|interval| interval.energy).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{EnergyInterval, Gap, GapReason, Span, Timeline};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroJoules;

    /// Of three intervals the one in which the machine woke up becomes a gap, and its energy nobody's.
    #[test]
    fn sleep_is_a_gap() {
        let at = KtimeNs::from_ns;
        let interval = |from, to| EnergyInterval {
            span: Span { start: at(from), end: at(to) },
            energy: MicroJoules::from_uj(7),
        };
        let timeline = Timeline {
            intervals: vec![interval(0, 10), interval(10, 20), interval(20, 30)],
            ..Timeline::default()
        };
        let awake = timeline.without_sleep(&[at(20)]);
        assert_eq!(awake.intervals, [interval(0, 10), interval(20, 30)]);
        assert_eq!(
            awake.gaps.iter().map(|gap| (gap.span.start, gap.why)).collect::<Vec<_>>(),
            [(at(10), GapReason::Slept)]
        );
        assert_eq!(awake.energy(), MicroJoules::from_uj(14));
    }

    /// Of two intervals goes what another domain drew in them, half an interval in proportion, and nothing of a gap; no microjoule is lost.
    #[test]
    fn what_a_counter_holds_as_well() {
        let timeline = |parts: &[(u64, u64, i64)]| {
            let interval = |&(from, to, uj): &(u64, u64, i64)| EnergyInterval {
                span: Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) },
                energy: MicroJoules::from_uj(uj),
            };
            Timeline { intervals: parts.iter().map(interval).collect(), ..Timeline::default() }
        };
        let module = timeline(&[(0, 10, 50), (10, 20, 50), (25, 30, 9)]);
        let held = timeline(&[(0, 5, 10), (5, 15, 7), (15, 28, 13)]);
        let rest = [(0, 10, 50 - 10 - 4), (10, 20, 50 - 3 - 5), (25, 30, 9 - 3)];
        assert_eq!(module.clone().less(&held), timeline(&rest));
        // Where nothing is known of the other the rest is nobody's, and none of it is lost.
        let gap = Gap { span: timeline(&[(15, 28, 0)]).intervals[0].span, why: GapReason::Slept };
        let held = Timeline { gaps: vec![gap], ..timeline(&[(0, 5, 10), (5, 15, 7)]) };
        let less = module.less(&held);
        assert_eq!(less.intervals, timeline(&rest[..1]).intervals);
        assert_eq!(less.doubted, timeline(&[(10, 20, 50 - 3), (25, 30, 9)]).intervals);
        assert_eq!(less.gaps.iter().map(|gap| gap.why).collect::<Vec<_>>(), [GapReason::Slept; 2]);
    }
}
