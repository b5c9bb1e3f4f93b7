//! What shows only over a second or more: a counter that shows more than the hardware can draw for so long,
//! or far less than it draws at rest while CPUs run.
//!
//! Leaves out single readings (`believed`).

use super::counter::most_over;
use super::{EnergyInterval, Gap, GapReason, Span, Timeline};
use energy_trace_model::collections::Order as _;
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::ops::Range;

/// Shorter is no lasting power, but at the end of what was read.
const POWER_OVER_NS: u64 = 1_000_000_000;
/// Where so large a part of the time has too much power, the counter's unit is wrong, and so is all that it
/// says.
const WRONG_UNIT: u64 = 4;
/// Less than this part of the idle power, while CPUs were busy for this part of the time, is no power of a
/// machine.
const LEAST_OF_IDLE: f64 = 0.25;
const BUSY: f64 = 0.5;

impl Timeline {
    /// The same without stretches of more power than can last. Nobody drew that: it is no energy.
    pub(super) fn without_excess(self, most: MicroWatts) -> Self {
        let stretches = stretches(&self.intervals);
        let is_over = |stretch: &Range<usize>| {
            let (span, energy) = whole(&self.intervals[stretch.clone()]);
            energy > most_over(most, span.ns())
        };
        let over: Vec<Range<usize>> = stretches.iter().filter(|stretch| is_over(stretch)).cloned().collect();
        let ns = |of: &[Range<usize>]| {
            of.iter()
                .map(|stretch| whole(&self.intervals[stretch.clone()]).0.ns())
                .fold(0, u64::saturating_add)
        };
        let too_much = self.gaps.iter().filter(|gap| gap.why == GapReason::TooMuch).map(|gap| gap.span.ns());
        let wrong = too_much.fold(ns(&over), u64::saturating_add);
        let known = ns(&stretches).saturating_add(wrong.saturating_sub(ns(&over)));
        let all_wrong = wrong > 0 && wrong.saturating_mul(WRONG_UNIT) >= known;
        let refused = if all_wrong { stretches } else { over };
        self.without(&refused, GapReason::TooMuch)
    }

    /// The same without stretches of far less power than the machine draws at rest, while its CPUs were busy:
    /// what was shown then is nobody's.
    pub fn above_idle(self, idle: MicroWatts, busy_ns: impl FnOnce(&[EnergyInterval]) -> Vec<u64>) -> Self {
        let least = LEAST_OF_IDLE * idle.as_watts() / 1e9;
        let is_low = |stretch: &Range<usize>| {
            let (span, energy) = whole(&self.intervals[stretch.clone()]);
            span.ns() >= POWER_OVER_NS && energy.as_joules() < least * span.ns() as f64
        };
        let mut low = stretches(&self.intervals);
        low.retain(is_low);
        let spans: Vec<EnergyInterval> = low
            .iter()
            .map(|stretch| whole(&self.intervals[stretch.clone()]))
            .map(|(span, energy)| EnergyInterval { span, energy })
            .collect();
        if spans.is_empty() {
            return self;
        }
        let busy = busy_ns(&spans);
        let was_busy = |(span, busy): (&EnergyInterval, u64)| busy as f64 >= BUSY * span.span.ns() as f64;
        let was_busy: Vec<bool> = spans.iter().zip(busy).map(was_busy).collect();
        let mut keep = was_busy.iter().copied();
        low.retain(|_| keep.next().unwrap_or(false));
        let doubted = spans.into_iter().zip(was_busy).filter(|(_, busy)| *busy).map(|(span, _)| span);
        let mut found = self.without(&low, GapReason::BelowIdle);
        found.doubted.extend(doubted);
        found
    }

    /// The same with gaps in the place of these intervals.
    pub(super) fn without(mut self, refused: &[Range<usize>], why: GapReason) -> Self {
        if refused.is_empty() {
            return self;
        }
        let gap = |stretch: &Range<usize>| Gap { span: whole(&self.intervals[stretch.clone()]).0, why };
        self.gaps.extend(refused.iter().map(gap).collect::<Vec<_>>());
        self.gaps.order_by_key(|gap| gap.span);
        let mut at = 0..;
        let is_kept = |at: usize| {
            let before = refused.partition_point(|stretch| stretch.end <= at);
            refused.get(before).is_none_or(|stretch| !stretch.contains(&at))
        };
        self.intervals.retain(|_| at.next().is_none_or(is_kept));
        self
    }
}

/// Intervals that follow each other, by a second or more; what is left at the end of a run is in its last
/// stretch.
fn stretches(intervals: &[EnergyInterval]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = vec![];
    let mut first = 0;
    for (at, interval) in intervals.iter().enumerate() {
        let next = intervals.get(at + 1);
        let ends = next.is_none_or(|next| next.span.start != interval.span.end);
        let ns = interval.span.end.ns_since(intervals[first].span.start);
        if ns < POWER_OVER_NS && !ends {
            continue;
        }
        match found.last_mut() {
            Some(before)
                if ns < POWER_OVER_NS
                    && before.end == first
                    && intervals[first - 1].span.end == intervals[first].span.start =>
            {
                before.end = at + 1;
            }
            _ => found.push(first..at + 1),
        }
        first = at + 1;
    }
    found
}

fn whole(intervals: &[EnergyInterval]) -> (Span, MicroJoules) {
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return Default::default() };
    let span = Span { start: first.span.start, end: last.span.end };
    (span, intervals.iter().map(|interval| interval.energy).sum())
}

#[cfg(test)]
mod tests {
    use super::{EnergyInterval, GapReason, MicroJoules, MicroWatts, Span, Timeline, stretches};
    use energy_trace_model::clock::KtimeNs;

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    /// Intervals of 10 ms over `seconds`, of so many watts at each second; none where it is `None`.
    fn timeline(watts: &[Option<i64>]) -> Timeline {
        let interval = |ms: u64| {
            let watts = watts[ms as usize / 1_000]?;
            let energy = MicroJoules::from_uj(watts * 10_000);
            Some(EnergyInterval { span: Span::new(at(ms), at(ms + 10)), energy })
        };
        let ms = (0..watts.len() as u64 * 1_000).step_by(10);
        Timeline { intervals: ms.filter_map(interval).collect(), ..Timeline::default() }
    }

    fn watts(watts: u64) -> MicroWatts {
        MicroWatts::from_uw(watts * 1_000_000)
    }

    fn gaps(timeline: &Timeline) -> Vec<(u64, u64, GapReason)> {
        let ms = |at: KtimeNs| at.as_ns() / 1_000_000;
        timeline.gaps.iter().map(|gap| (ms(gap.span.start), ms(gap.span.end), gap.why)).collect()
    }

    /// Stretches end after a second and at gaps; a short rest belongs to the stretch before it, and stands
    /// alone where there is none.
    #[test]
    fn seconds() {
        let mut intervals = timeline(&[Some(1), Some(1), None, Some(1)]).intervals;
        intervals.truncate(230);
        assert_eq!(stretches(&intervals), [0..100, 100..200, 200..230]);
        assert_eq!(stretches(&intervals[..150]).as_slice(), std::slice::from_ref(&(0..150)));
        assert_eq!(stretches(&[]), []);
    }

    /// A second of 500 W on hardware that can draw 200 is refused, and the others stay; 215 W may be a step
    /// of the counter that came before.
    #[test]
    fn too_much_for_a_second() {
        let mut powers = vec![Some(50); 10];
        powers[4] = Some(500);
        let found = timeline(&powers).without_excess(watts(200));
        assert_eq!(gaps(&found), [(4_000, 5_000, GapReason::TooMuch)]);
        assert_eq!(found.energy(), MicroJoules::from_uj(450_000_000));
        assert_eq!(found.doubted, []);
        powers[4] = Some(215);
        let good = timeline(&powers);
        assert_eq!(good.clone().without_excess(watts(200)), good);
    }

    /// A counter with another unit is not to be believed where it shows what could be drawn either.
    #[test]
    fn another_unit() {
        let found = timeline(&[Some(100), Some(500), Some(100)]).without_excess(watts(200));
        assert_eq!((found.intervals.len(), found.gaps.len()), (0, 3));
    }

    /// 2 W on a machine that draws 20 at rest is no power while CPUs run, and nobody's; it is one while they
    /// rest. 6 W are believed.
    #[test]
    fn below_idle() {
        let low = || timeline(&[Some(30), Some(2), Some(2), Some(6), Some(30)]);
        let busy = |spans: &[EnergyInterval]| {
            spans.iter().map(|of| if of.span.start == at(1_000) { 800_000_000 } else { 10_000_000 }).collect()
        };
        let found = low().above_idle(watts(20), busy);
        assert_eq!(gaps(&found), [(1_000, 2_000, GapReason::BelowIdle)]);
        assert_eq!(found.energy(), MicroJoules::from_uj(68_000_000));
        let doubted =
            EnergyInterval { span: Span::new(at(1_000), at(2_000)), energy: MicroJoules::from_uj(2_000_000) };
        assert_eq!(found.doubted, [doubted]);
        assert_eq!(low().above_idle(watts(20), |spans| vec![0; spans.len()]), low());
    }
}
