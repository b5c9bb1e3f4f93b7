//! A sensor of power that hangs: it shows one value for far longer than it usually does, while many CPUs
//! begin or end to work.
//!
//! A counter that hangs adds nothing, and is found by that (`believed`); the sum of a power that hangs goes
//! on. Leaves out sensors that had one value from the start, unless for a minute: firmware may have a new one
//! as seldom as that.

use super::model::busy_of_cells;
use super::{EnergyInterval, GapReason, Span, Timeline, span_of};
use std::ops::Range;

/// One value for so many times as long as usual, and for so long, is too long.
const TIMES_USUAL: u64 = 20;
const SHORTEST_NS: u64 = 3_000_000_000;
/// The usual time of a sensor that has shown one value only.
const NEVER_CHANGED_NS: u64 = 3_000_000_000;
/// CPUs are looked at in pieces of this length. Between two of them so many more CPUs have to be busy, as a
/// part of all, that a sensor with coarse steps shows it too.
const PIECE_NS: u64 = 1_000_000_000;
const BUSY: f64 = 0.25;
/// Energies are rounded to the microjoule at both ends.
const ROUNDED_UJ: f64 = 2.5;

impl Timeline {
    /// The same without stretches in which a sensor of power hung. `busy` are the times in which one of the
    /// domain's CPUs was busy, of all of them.
    pub fn without_hanging<I: Iterator<Item = Span>>(self, cpus: usize, busy: impl Fn() -> I) -> Self {
        let values = values(&self.intervals);
        let longest = TIMES_USUAL.saturating_mul(usual_ns(&self.intervals, &values)).max(SHORTEST_NS);
        let hangs = |value: &Range<usize>| {
            let of = self.intervals.get(value.clone()).unwrap_or_default();
            span_of(of).ns() >= longest && changes(cpus, busy(), span_of(of))
        };
        let hanging: Vec<Range<usize>> = values.iter().filter(|value| hangs(value)).cloned().collect();
        self.without(&hanging, GapReason::StoodStill)
    }
}

/// Intervals of the same power, which follow each other.
fn values(intervals: &[EnergyInterval]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, pair) in intervals.windows(2).enumerate() {
        let [one, next] = pair else { continue };
        match found.last_mut().filter(|range| range.end == at + 1) {
            Some(range) if is_same(*one, *next) => range.end = at + 2,
            Some(_) => found.push(at + 1..at + 2),
            None if is_same(*one, *next) => found.push(at..at + 2),
            None => found.extend([at..at + 1, at + 1..at + 2]),
        }
    }
    found
}

fn is_same(one: EnergyInterval, next: EnergyInterval) -> bool {
    let ns = |of: EnergyInterval| of.span.ns() as f64;
    let expected = one.energy.as_uj() as f64 * ns(next) / ns(one).max(1.0);
    let rounded = ROUNDED_UJ * (1.0 + ns(next) / ns(one).max(1.0));
    one.span.end == next.span.start && (expected - next.energy.as_uj() as f64).abs() <= rounded
}

/// How long the sensor shows a value, by the median.
fn usual_ns(intervals: &[EnergyInterval], values: &[Range<usize>]) -> u64 {
    let ns = |value: &Range<usize>| span_of(intervals.get(value.clone()).unwrap_or_default()).ns();
    let mut lengths: Vec<u64> = values.iter().map(ns).collect();
    lengths.sort_unstable();
    if lengths.len() > 1 { lengths.get(lengths.len() / 2).copied().unwrap_or(0) } else { NEVER_CHANGED_NS }
}

/// Whether many more CPUs were busy in some pieces of a span than in others.
fn changes(cpus: usize, busy: impl Iterator<Item = Span>, span: Span) -> bool {
    let whole = usize::try_from(span.ns() / PIECE_NS).unwrap_or(0);
    let mut busy_ns = busy_of_cells(busy, span, PIECE_NS);
    busy_ns.truncate(whole);
    let ends = busy_ns.iter().min().zip(busy_ns.iter().max());
    let many = BUSY * cpus as f64 * PIECE_NS as f64;
    cpus > 0 && ends.is_some_and(|(least, most)| (most - least) as f64 >= many)
}

#[cfg(test)]
mod tests {
    use super::{EnergyInterval, GapReason, Span, Timeline};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroJoules;

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    /// Means of 50 ms of so many milliwatts at each moment.
    fn timeline(seconds: u64, milliwatts: impl Fn(u64) -> u64) -> Timeline {
        let interval = |ms: u64| EnergyInterval {
            span: Span::new(at(ms), at(ms + 50)),
            energy: MicroJoules::from_uj((milliwatts(ms) * 50).cast_signed()),
        };
        Timeline {
            intervals: (0..seconds * 1_000).step_by(50).map(interval).collect(),
            ..Timeline::default()
        }
    }

    /// One CPU is busy from the fourth second on.
    fn busy() -> impl Iterator<Item = Span> {
        std::iter::once(Span::new(at(3_000), at(90_000)))
    }

    /// Noise as sensors have it.
    fn noisy(ms: u64) -> u64 {
        10_000 + ms * 7 % 31
    }

    /// A sensor that hangs from the second second on is found by what one CPU of four does; one that shows
    /// one value while they rest may be right, and so may one that changes seldom.
    #[test]
    fn one_value() {
        let hung = |ms: u64| if ms < 1_000 { noisy(ms) } else { 10_000 };
        let found = timeline(20, hung).without_hanging(4, busy);
        let gaps: Vec<_> = found.gaps.iter().map(|gap| (gap.span.start, gap.span.end, gap.why)).collect();
        assert_eq!(gaps, [(at(1_000), at(20_000), GapReason::StoodStill)]);
        assert_eq!(found.intervals.len(), 20);
        let good = [timeline(20, noisy), timeline(20, |ms| 10_000 + ms / 2_000), timeline(59, |_| 10_000)];
        for of in good {
            assert_eq!(of.clone().without_hanging(4, busy), of);
        }
        let rests = timeline(20, hung);
        assert_eq!(rests.clone().without_hanging(4, std::iter::empty), rests);
        assert_eq!(rests.clone().without_hanging(5, busy), rests);
        assert_eq!(timeline(61, |_| 10_000).without_hanging(4, busy).intervals, []);
        assert_eq!(Timeline::default().without_hanging(4, busy), Timeline::default());
    }
}
