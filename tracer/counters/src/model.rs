//! Intervals of a domain without a counter, from a model of its power.
//!
//! ```text
//! E[t0, t1) = idle · (t1 − t0) + core · busy[t0, t1)     busy: CPU time of the scope's CPUs, by sched_switch
//! ```
//!
//! This is the simplest of the utilisation models: power linear in CPU use (Fan, Weber, Barroso: Power
//! provisioning for a warehouse-sized computer, ISCA 2007), or by a curve where one is known: the first CPUs
//! that are busy cost more than the last (`LoadCurve`). It knows nothing of frequency, vector units or
//! memory, so every number that comes of it is called estimated. Time is cut on a grid of 20 ms, as counters
//! are read. Both terms are rounded as running totals and then differenced, so that the intervals sum to the
//! rounded total whatever their number.

use super::{EnergyInterval, Span, Timeline};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::time::Duration;

/// The grid of a model's intervals in nanoseconds.
pub const GRID_NS: u64 = 20_000_000;

/// No more cells than this (23 hours of 20 ms): a longer span, or a nonsensical one, gets a coarser grid.
const MOST_CELLS: u64 = 1 << 22;

/// How power above idle goes with load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadCurve {
    /// Logical CPUs of the domain.
    pub cpus: u64,
    /// Power at a tenth of the load, in thousandths of that at full load.
    pub tenth: u32,
    /// The same at half of it.
    pub half: u32,
}

impl LoadCurve {
    /// The busy time at full load that draws as much as these CPUs do, which were busy for so long in so
    /// long.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the check")]
    fn at_full_load(self, busy_ns: u64, of_ns: u64) -> u64 {
        let whole = u128::from(self.cpus) * u128::from(of_ns);
        let (tenth, half) = (u128::from(self.tenth), u128::from(self.half));
        let point = |load: u128, power: u128| (whole * load / 1_000, whole * power / 1_000);
        let points = [point(0, 0), point(100, tenth), point(500, half), point(1_000, 1_000)];
        let busy = u128::from(busy_ns);
        let line = |pair: &[(u128, u128)]| match pair {
            [(from, low), (to, high)] if busy <= *to && to > from => {
                Some(low + (busy - from) * high.saturating_sub(*low) / (to - from))
            }
            _ => None,
        };
        // More than all of them is no load: some CPUs are not known.
        let drawn = points.windows(2).find_map(line).unwrap_or(busy);
        drawn.min(u128::from(u64::MAX)) as u64
    }
}

/// What a model says about `span`. `busy` are the times in which CPUs of the scope ran something, one span
/// for each CPU and stretch, in any order.
pub fn intervals_of_model(
    idle: MicroWatts,
    core: MicroWatts,
    curve: Option<LoadCurve>,
    busy: impl Iterator<Item = Span>,
    span: Span,
) -> Timeline {
    let cell_ns = GRID_NS.max(span.ns().div_ceil(MOST_CELLS));
    let mut busy_total = 0_u64;
    let (mut idle_before, mut core_before) = (MicroJoules::ZERO, MicroJoules::ZERO);
    let mut intervals = Vec::new();
    for (cell, busy_ns) in busy_of_cells(busy, span, cell_ns).into_iter().enumerate() {
        let from = (cell as u64) * cell_ns;
        let to = from.saturating_add(cell_ns).min(span.ns());
        let drawing_ns = curve.map_or(busy_ns, |curve| curve.at_full_load(busy_ns, to.saturating_sub(from)));
        busy_total = busy_total.saturating_add(drawing_ns);
        let (idle_now, core_now) = (idle.over_ns(to), core.over_ns(busy_total));
        let energy = (idle_now - idle_before) + (core_now - core_before);
        (idle_before, core_before) = (idle_now, core_now);
        intervals.push(EnergyInterval {
            span: Span { start: after(span.start, from), end: after(span.start, to) },
            energy,
        });
    }
    Timeline { intervals, ..Timeline::default() }
}

fn after(start: KtimeNs, ns: u64) -> KtimeNs {
    start + Duration::from_nanos(ns)
}

/// Busy time in each cell. Whole cells are counted as steps up and down and summed once, so that a long
/// stretch costs as much as a short one.
pub(super) fn busy_of_cells(busy: impl Iterator<Item = Span>, span: Span, cell_ns: u64) -> Vec<u64> {
    let count = usize::try_from(span.ns().div_ceil(cell_ns)).unwrap_or(0);
    let mut partial = vec![0_u64; count];
    let mut steps = vec![0_i64; count + 1];
    for stretch in busy.filter_map(|stretch| stretch.overlap(span)) {
        let (from, to) = (stretch.start.ns_since(span.start), stretch.end.ns_since(span.start));
        let (first, last) = ((from / cell_ns) as usize, (to / cell_ns) as usize);
        if first == last {
            add(&mut partial, first, to - from);
        } else {
            add(&mut partial, first, (first as u64 + 1) * cell_ns - from);
            add(&mut partial, last, to - (last as u64) * cell_ns);
            steps.get_mut(first + 1).into_iter().for_each(|step| *step += 1);
            steps.get_mut(last).into_iter().for_each(|step| *step -= 1);
        }
    }
    let mut running = 0_i64;
    for (cell, step) in partial.iter_mut().zip(steps) {
        running += step;
        *cell = cell.saturating_add(running.unsigned_abs().saturating_mul(cell_ns));
    }
    partial
}

fn add(cells: &mut [u64], cell: usize, ns: u64) {
    // A stretch that ends with the span ends in a cell that does not exist, with nothing to add.
    cells.get_mut(cell).into_iter().for_each(|sum| *sum = sum.saturating_add(ns));
}

#[cfg(test)]
mod tests {
    use super::{GRID_NS, LoadCurve, Span, busy_of_cells, intervals_of_model};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroWatts;
    use proptest::prelude::*;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// Idle 10 W and one CPU at 5 W for half the time are 12.5 W, cut on the grid, the last interval shorter.
    #[test]
    fn idle_and_busy() {
        let watts = |w| MicroWatts::from_watts(w).unwrap();
        let busy = [span(1_000_000_000, 1_025_000_000)];
        let span_of_run = span(1_000_000_000, 1_050_000_000);
        let timeline = intervals_of_model(watts(10.0), watts(5.0), None, busy.into_iter(), span_of_run);
        let energies: Vec<_> = timeline.intervals.iter().map(|i| i.energy.as_uj()).collect();
        assert_eq!(energies, [300_000, 225_000, 100_000]);
        assert_eq!(timeline.intervals[2].span, span(1_040_000_000, 1_050_000_000));
    }

    /// Of ten CPUs at 1 W each, one that is busy draws 2.2 W, five 6.9, all ten 10; between these power goes
    /// in straight lines.
    #[test]
    fn load_curve() {
        let curve = LoadCurve { cpus: 10, tenth: 220, half: 690 };
        let at = |cpus: u64| curve.at_full_load(cpus * 10_000_000, 20_000_000) / 10_000;
        assert_eq!(
            [0, 1, 2, 6, 10, 15, 20, 30].map(at),
            [0, 2_200, 4_400, 9_100, 13_800, 16_900, 20_000, 30_000]
        );
        let none = LoadCurve { cpus: 0, ..curve };
        assert_eq!(none.at_full_load(7, 20_000_000), 7);
        let watt = MicroWatts::from_uw(1_000_000);
        let one = std::iter::once(span(0, 20_000_000));
        let timeline = intervals_of_model(MicroWatts::default(), watt, Some(curve), one, span(0, 20_000_000));
        assert_eq!(timeline.intervals[0].energy.as_uj(), 44_000);
    }

    /// A span of centuries gets a coarser grid instead of all the memory.
    #[test]
    fn absurd_spans_are_bounded() {
        let timeline = intervals_of_model(
            MicroWatts::from_uw(1),
            MicroWatts::from_uw(1),
            None,
            std::iter::empty(),
            span(0, u64::MAX),
        );
        assert!(timeline.intervals.len() <= super::MOST_CELLS as usize);
        assert_eq!(timeline.intervals.last().unwrap().span.end.as_ns(), u64::MAX);
    }

    proptest! {
        /// The cells' busy time is the stretches' time within the span, and the intervals' energy the energy
        /// of the whole.
        #[test]
        fn nothing_is_lost(
            stretches in prop::collection::vec((0_u64..400_000_000, 0_u64..90_000_000), 0..20),
            start in 0_u64..200_000_000,
            length in 0_u64..300_000_000,
        ) {
            let whole = span(start, start + length);
            let busy: Vec<_> = stretches.iter().map(|&(from, ns)| span(from, from + ns)).collect();
            let inside: u64 = busy.iter().filter_map(|b| b.overlap(whole)).map(Span::ns).sum();
            let cells = busy_of_cells(busy.iter().copied(), whole, GRID_NS);
            prop_assert_eq!(cells.iter().sum::<u64>(), inside);
            let (idle, core) = (MicroWatts::from_uw(7_654_321), MicroWatts::from_uw(3_210_987));
            let timeline = intervals_of_model(idle, core, None, busy.into_iter(), whole);
            prop_assert_eq!(timeline.energy(), idle.over_ns(length) + core.over_ns(inside));
            prop_assert_eq!(timeline.intervals.iter().map(|i| i.span.ns()).sum::<u64>(), length);
        }
    }
}
