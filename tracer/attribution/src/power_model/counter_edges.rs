//! How far the ends of an interval may put its energy off, because a counter moves in steps.
//!
//! Leaves out how far it is behind on average (`counter_delay`).

use super::evidence::Evidence;
use crate::between_samples::expected_time::{ColumnWeights, Times};
use crate::between_samples::interval_slices::IntervalSlice;
use crate::numerics::parallel::map_ranges;
use crate::parts::Part;
use crate::power_model::windows::Windows;
use std::ops::Range;

/// A counter that moves each millisecond is up to one late.
const LATE_NS: u64 = 1_000_000;
/// Variance (ms²) of how late it is: evenly distributed.
const LATE_VARIANCE: f64 = 1.0 / 12.0;
/// The unit of a counter in joules: RAPL's is 15 or 61 µJ, a sensor's may be more.
const UNIT_JOULES: f64 = 1e-4;

/// Intervals that are looked at by one thread at once.
const INTERVALS_PER_TASK: usize = 256;

/// What the last millisecond of each interval held, which the counter may show too late.
#[derive(Debug)]
pub(crate) struct Edges {
    intervals: usize,
    /// Energy of the idle baseline in a millisecond.
    idle: f64,
    /// Time in those milliseconds, with its interval.
    late: Vec<(u32, ColumnWeights)>,
    /// Mean square (ms²) of how late the counter is on average, beside what times were moved for it
    /// (`counter_delay`).
    bias: f64,
}

impl Edges {
    /// Of a domain; `column` is that of an owner.
    pub(crate) fn new(evidence: &Evidence<'_>, times: Times<'_>, column: impl Fn(u32) -> u32 + Sync) -> Self {
        let Evidence { intervals, dynamic, slices, .. } = *evidence;
        if evidence.settings.left_out.has(Part::CounterEdges) {
            return Self { intervals: intervals.len(), idle: 0.0, late: vec![], bias: 0.0 };
        }
        let late = |slice: IntervalSlice| {
            let end = intervals.get(slice.interval as usize)?.span.end;
            let before_end = end.ns_since(slice.at).saturating_sub(slice.ns / 2);
            let ns = slice.ns.min(LATE_NS.saturating_sub(before_end));
            let weights = (ns > 0).then(|| ColumnWeights::of(&slice, times, &column))?;
            let seconds = weights.seconds * ns as f64 / slice.ns.max(1) as f64;
            Some((slice.interval, ColumnWeights { seconds, ..weights }))
        };
        let of_some = |some: Range<usize>| -> Vec<(u32, ColumnWeights)> {
            let of_interval = |interval: usize| {
                let end = intervals[interval].span.end;
                // About: `late` knows exactly.
                slices.of_times(interval, move |time| end.ns_since(time.end) <= LATE_NS + 1)
            };
            some.flat_map(of_interval).filter_map(late).collect()
        };
        let late = map_ranges(intervals.len(), INTERVALS_PER_TASK, slices.len(), of_some).concat();
        let measured: f64 = intervals.iter().map(|interval| interval.energy.as_joules()).sum();
        let above: f64 = dynamic.iter().map(|energy| energy.as_joules()).sum();
        let ns: f64 = intervals.iter().map(|interval| interval.span.ns() as f64).sum();
        Self {
            intervals: intervals.len(),
            idle: (measured - above).max(0.0) * LATE_NS as f64 / ns.max(1.0),
            late,
            bias: (0.5 - evidence.settings.delay_ns as f64 / LATE_NS as f64).powi(2),
        }
    }

    /// Mean square (J²) of what the ends of each window put its energy off, for columns that draw `watts` and
    /// mixes with these moments: u A − v B, A and B what the millisecond before either end held, u and v
    /// evenly distributed between nothing and all of it.
    pub(crate) fn variances(&self, windows: &Windows, watts: &[f64], of_mixes: &[(f64, f64)]) -> Vec<f64> {
        let mut late = vec![self.idle; self.intervals];
        for (interval, weights) in &self.late {
            if let Some(sum) = late.get_mut(*interval as usize) {
                *sum += weights.seconds * weights.moments(watts, of_mixes).0;
            }
        }
        let firsts = windows.first_intervals();
        let ends = firsts.iter().zip(firsts.iter().skip(1));
        ends.map(|(&first, &behind)| self.variance(&late, first, behind)).collect()
    }

    /// Of intervals from `first` to before `behind`.
    fn variance(&self, late: &[f64], first: usize, behind: usize) -> f64 {
        let at = |interval: Option<usize>| interval.and_then(|interval| late.get(interval)).copied();
        let (a, b) =
            (at(first.checked_sub(1)).unwrap_or(self.idle), at(behind.checked_sub(1)).unwrap_or(self.idle));
        (a * a + b * b) * LATE_VARIANCE + (a - b).powi(2) * self.bias + UNIT_JOULES.powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::{Edges, Evidence, Times, UNIT_JOULES, Windows};
    use crate::power_model::settings::Settings;
    use crate::power_model::tests::toy::Toy;

    /// Power that is the same at both ends blurs an interval less than power at one of them only.
    #[test]
    fn edges_cancel_in_part() {
        let edges = Edges { intervals: 3, idle: 0.02, late: vec![], bias: 0.25 };
        let late = [0.03, 0.03, 0.02];
        let unit = UNIT_JOULES.powi(2);
        assert!((edges.variance(&late, 1, 2) - unit - 0.03 * 0.03 / 6.0).abs() < 1e-12);
        assert!(edges.variance(&late, 2, 3) > (0.03 * 0.03 + 0.02 * 0.02) / 12.0);
    }

    /// Of columns of 40 and 10 W that run in the last 0.4 ms and in the 0.6 ms before it, with 5 W idle: 27
    /// mJ; in the window before nothing ran. The mean square of u A − v B with even u and v that are ½ late
    /// on average, of which `delay_ns` is known (a double integral by hand).
    #[test]
    fn what_the_last_millisecond_held() {
        let rows = [vec![0.0, 0.0], vec![19.6, 0.4], vec![20.0, 0.0]];
        let toy = Toy::new(20.0, &rows, &[0.0, 0.5, 0.5], 5.0);
        let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
        let of = |delay_ns| {
            let evidence =
                Evidence { settings: Settings { delay_ns, ..Settings::default() }, ..toy.evidence() };
            let edges = Edges::new(&evidence, Times::Nearest, |owner| owner);
            edges.variances(&windows, &[10.0, 40.0], &[])
        };
        let (idle, last): (f64, f64) = (0.005, 0.005 + 0.6e-3 * 10.0 + 0.4e-3 * 40.0);
        let should = |a: f64, b: f64, known: f64| {
            (a * a + b * b) / 12.0 + (a - b).powi(2) * (0.5 - known).powi(2) + 1e-8
        };
        for (delay_ns, known) in [(0, 0.0), (500_000, 0.5), (1_000_000, 1.0)] {
            let found = of(delay_ns);
            let expected = [should(idle, idle, known), should(idle, last, known), should(last, 0.015, known)];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found / expected - 1.0).abs() < 1e-6, "{found} instead of {expected}");
            }
        }
    }
}
