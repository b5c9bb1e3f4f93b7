//! Intervals and gaps from the readings of one counter.

use super::believed::Believed;
use super::counter::{CounterStep, step};
use super::physics::Physics;
use super::{EnergyInterval, Gap, GapReason, Span, Timeline};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::recording::record::{CounterValue, Reading};

/// What the readings of a counter say about `span`, as far as they are believed.
///
/// Those of a slow counter that repeat the value before them are merged (see the module's essay). Readings
/// may come in any order; of two at the same moment the first counts.
pub fn intervals_of_readings(readings: &[Reading], physics: &Physics, span: Span) -> Timeline {
    let mut good = good_readings(readings);
    let mut timeline = Timeline { failed: (readings.len() - good.len()) as u64, ..Timeline::default() };
    good.order_by_key(|&(at, _)| at);
    good.dedup_by_key(|&mut (at, _)| at);
    let (Some(&(first, _)), Some(&(last, _))) = (good.first(), good.last()) else {
        timeline.add_gap(span, GapReason::NoReading, span);
        return timeline;
    };
    let believed = Believed::of(&good, physics);
    timeline.left_out = believed.left_out;
    timeline.add_gap(Span { start: span.start, end: first }, GapReason::NoReading, span);
    for run in believed.runs {
        timeline.add_run(run, physics, span);
    }
    for gap in believed.gaps {
        timeline.add_gap(gap.span, gap.why, span);
    }
    timeline.add_gap(Span { start: last, end: span.end }, GapReason::NoReading, span);
    timeline.gaps.order_by_key(|gap| gap.span);
    let inside = |doubted: EnergyInterval| doubted.inside(span);
    timeline.doubted.extend(believed.doubted.into_iter().filter_map(inside));
    timeline.without_excess(physics.lasting)
}

fn good_readings(readings: &[Reading]) -> Vec<(KtimeNs, u64)> {
    let good = |reading: &Reading| match reading.value {
        CounterValue::MicroJoules(uj) => Some((reading.at, uj)),
        CounterValue::Failed => None,
    };
    readings.iter().filter_map(good).collect()
}

/// Drops readings that repeat the one before. The last step's interval reaches to the last reading: the
/// counter's steps and the time they stand for are equally long, only shifted.
fn keep_changes(good: &mut Vec<(KtimeNs, u64)>) {
    let last = good.last().copied();
    good.dedup_by_key(|&mut (_, uj)| uj);
    if let (Some((end, _)), [_, .., (at, _)]) = (last, good.as_mut_slice()) {
        *at = end;
    } else if let (Some((end, uj)), [(start, _)]) = (last, good.as_slice())
        && end > *start
    {
        // It never moved: one interval of zero.
        good.push((end, uj));
    }
}

impl Timeline {
    /// Adds the steps between readings that go on from each other.
    fn add_run(&mut self, mut run: Vec<(KtimeNs, u64)>, physics: &Physics, span: Span) {
        if physics.slow {
            keep_changes(&mut run);
        }
        for pair in run.windows(2) {
            let &[(from, before), (to, after)] = pair else { continue };
            let between = Span { start: from, end: to };
            // What can be believed was asked before.
            let most = physics.most_over(u64::MAX);
            match step(before, after, between.ns(), physics.max_range, most) {
                CounterStep::Normal(energy) | CounterStep::Wrapped(energy) => {
                    self.intervals.extend(EnergyInterval { span: between, energy }.inside(span));
                }
                CounterStep::Unknown(why) => self.add_gap(between, why, span),
            }
        }
    }

    fn add_gap(&mut self, between: Span, why: GapReason, span: Span) {
        if let Some(inside) = between.overlap(span) {
            self.gaps.push(Gap { span: inside, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GapReason, Physics, Span, Timeline, intervals_of_readings};
    use crate::counter::POWER_CEILING;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::recording::record::{CounterValue, Reading};

    const MS: u64 = 1_000_000;

    fn at(ms: u64, uj: u64) -> Reading {
        Reading { at: KtimeNs::from_ns(ms * MS), value: CounterValue::MicroJoules(uj) }
    }

    /// By a counter of which nothing is known.
    fn of(readings: &[Reading], slow: bool, span: Span) -> Timeline {
        let physics = Physics { slow, moment: POWER_CEILING, lasting: POWER_CEILING, ..Physics::of_gpu() };
        intervals_of_readings(readings, &physics, span)
    }

    fn failed(ms: u64) -> Reading {
        Reading { at: KtimeNs::from_ns(ms * MS), value: CounterValue::Failed }
    }

    fn span(from_ms: u64, to_ms: u64) -> Span {
        Span { start: KtimeNs::from_ns(from_ms * MS), end: KtimeNs::from_ns(to_ms * MS) }
    }

    /// Intervals as (from ms, to ms, µJ).
    fn intervals(timeline: &Timeline) -> Vec<(u64, u64, i64)> {
        let plain = |i: &super::EnergyInterval| {
            (i.span.start.as_ns() / MS, i.span.end.as_ns() / MS, i.energy.as_uj())
        };
        timeline.intervals.iter().map(plain).collect()
    }

    fn gaps(timeline: &Timeline) -> Vec<(u64, u64, GapReason)> {
        let plain = |g: &super::Gap| (g.span.start.as_ns() / MS, g.span.end.as_ns() / MS, g.why);
        timeline.gaps.iter().map(plain).collect()
    }

    /// Readings on both sides of the span leave no gap; what lies outside is split off in proportion to time.
    #[test]
    fn straddling_intervals_are_split() {
        let timeline = of(&[at(0, 0), at(20, 1000), at(40, 3000)], false, span(5, 30));
        assert_eq!(intervals(&timeline), [(5, 20, 750), (20, 30, 1000)]);
        assert_eq!(gaps(&timeline), []);
    }

    /// A failed reading makes a longer interval and loses no energy; a repeated zero is a real zero.
    #[test]
    fn failed_readings_are_bridged() {
        let readings = [at(0, 100), failed(20), at(40, 300), at(60, 300)];
        let timeline = of(&readings, false, span(0, 60));
        assert_eq!(intervals(&timeline), [(0, 40, 200), (40, 60, 0)]);
        assert_eq!((timeline.failed, gaps(&timeline)), (1, vec![]));
    }

    /// A counter that goes back without a range is a gap, and so are the ends without a reading.
    #[test]
    fn gaps_are_named() {
        let readings = [at(10, 500), at(20, 900), at(30, 100), at(40, 150)];
        let timeline = of(&readings, false, span(0, 50));
        assert_eq!(intervals(&timeline), [(10, 20, 400), (30, 40, 50)]);
        let expected =
            [(0, 10, GapReason::NoReading), (20, 30, GapReason::WentBack), (40, 50, GapReason::NoReading)];
        assert_eq!(gaps(&timeline), expected);
        let none = of(&[failed(10)], false, span(0, 50));
        assert_eq!(gaps(&none), [(0, 50, GapReason::NoReading)]);
    }

    /// A slow counter's repeated values join the step that follows; the tail joins the last step; one that
    /// never moves is one zero.
    #[test]
    fn slow_counters_are_merged() {
        let readings =
            [at(0, 0), at(20, 0), at(40, 0), at(60, 900), at(80, 900), at(100, 1800), at(120, 1800)];
        let timeline = of(&readings, true, span(0, 120));
        assert_eq!(intervals(&timeline), [(0, 60, 900), (60, 120, 900)]);
        let still = of(&readings[..3], true, span(0, 40));
        assert_eq!(intervals(&still), [(0, 40, 0)]);
    }

    /// Readings out of order are put in order first; two at one moment count once.
    #[test]
    fn order_does_not_matter() {
        let readings = [at(40, 300), at(0, 100), at(20, 200), at(20, 999)];
        let timeline = of(&readings, false, span(0, 40));
        assert_eq!(intervals(&timeline), [(0, 20, 100), (20, 40, 100)]);
    }
}
