//! The meter's view of launches: what of them each window of its counter holds.
//!
//! A GPU's counter steps about every 100 ms (20 ms on some boards), and what it shows happened a while
//! before: 30 ms of lag that nobody models make errors of 80 % (SIM, research of this project). Some boards
//! look only during the last part of each step, 25 of 100 ms, and take that for the whole (Yang et al.:
//! Part-time Power Measurements, SC 2024). Both are found by trying: the lag and the part that explain the
//! counter best. Steps come at regular times but are seen when somebody reads, so their times are put on a
//! grid where one fits. Leaves out what launches cost (`launch_energies`).

use super::batches::{Batches, TimeRange};
use super::constants::{AGREEMENT, ENOUGH_STEPS, FEWEST_ON_GRID, PERIODS, SHORTEST_GRID, SHORTEST_WINDOW};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;

/// How a meter is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Meter {
    /// Seconds from the work to its counting.
    pub(super) late: f64,
    /// The part of each step that it looks at, the last one.
    pub(super) duty: f64,
    /// Seconds over which what it says is a mean; 0: it is none.
    pub(super) mean: f64,
}

impl Meter {
    /// Neither late nor idle.
    pub(super) const PROMPT: Self = Self { late: 0.0, duty: 1.0, mean: 0.0 };

    /// When that happened which it counted in a window.
    pub(super) fn looked(self, window: TimeRange) -> TimeRange {
        let until = window.until - self.late;
        let length = if self.mean > 0.0 { self.mean } else { self.duty * window.length() };
        TimeRange { from: until - length, until }
    }

    /// What the work of the time that it looked at counts for in a window of this length.
    fn counted(self, window: f64) -> f64 {
        if self.mean > 0.0 { window / self.mean } else { 1.0 / self.duty }
    }
}

/// A stretch of the counter to learn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) time: TimeRange,
    /// Steps in it.
    pub(super) ticks: u32,
    /// Energy above idle.
    pub(super) joules: f64,
}

/// Seconds from the start of the recording.
pub(super) fn seconds(at: KtimeNs, start: KtimeNs) -> f64 {
    at.ns_since(start) as f64 / 1e9 - start.ns_since(at) as f64 / 1e9
}

pub(super) fn time_range_of(span: Span, start: KtimeNs) -> TimeRange {
    TimeRange { from: seconds(span.start, start), until: seconds(span.end, start) }
}

/// One or more steps of the counter that one interval holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) time: TimeRange,
    /// How many, where the counter is seen to be regular; else 1.
    pub(super) ticks: u32,
}

/// When the steps of each interval were made.
pub(super) fn steps_of(intervals: &[EnergyInterval], start: KtimeNs) -> Vec<Step> {
    let step = |interval: &EnergyInterval| Step { time: time_range_of(interval.span, start), ticks: 1 };
    let mut steps: Vec<Step> = intervals.iter().map(step).collect();
    for run in steps.chunk_by_mut(|before, after| (before.time.until - after.time.from).abs() < 1e-9) {
        put_on_grid(run);
    }
    steps
}

/// The same intervals, each as long as its step was where the counter is seen to be regular, and not as long
/// as it seemed by when it was read: by that, steps of 100 ms that are read each 40 ms are 80 and 120 ms
/// long, and power is a quarter too high and too low in turn.
pub(crate) fn regular(intervals: &[EnergyInterval]) -> Vec<EnergyInterval> {
    let Some(start) = intervals.first().map(|interval| interval.span.start) else { return vec![] };
    let steps = steps_of(intervals, start);
    let at = |seconds: f64| KtimeNs::from_ns(start.as_ns().saturating_add(nanoseconds(seconds)));
    let mut regular = intervals.to_vec();
    for (i, pair) in steps.windows(2).enumerate() {
        // Where one follows the other, both end and begin at the step; gaps stay as they are.
        if intervals[i].span.end == intervals[i + 1].span.start {
            let step = at(pair[0].time.until).clamp(regular[i].span.start, intervals[i + 1].span.end);
            (regular[i].span.end, regular[i + 1].span.start) = (step, step);
        }
    }
    regular
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
const fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Puts the steps of a run without gaps on a grid, if they fit one. A step is seen after it was made, at the
/// next reading.
fn put_on_grid(run: &mut [Step]) {
    // The ends of a run are readings, not steps.
    let Some(inner) = run.len().checked_sub(1).filter(|inner| *inner >= FEWEST_ON_GRID) else { return };
    let seen: Vec<f64> = run[..inner].iter().map(|step| step.time.until).collect();
    let Some((first, period)) = grid_of(&seen) else { return };
    let number: Vec<f64> = seen.iter().map(|at| ((at - first) / period).floor()).collect();
    // Two steps that were seen within one period cannot both be on this grid.
    if number.windows(2).filter(|pair| pair[1] - pair[0] < 0.5).count() * 20 > inner {
        return;
    }
    for i in 0..inner {
        if i > 0 && number[i] - number[i - 1] < 0.5 {
            continue;
        }
        let at = first + number[i] * period;
        run[i].time.until = at;
        run[i + 1].time.from = at;
        let ticks = if i == 0 { 1.0 } else { (number[i] - number[i - 1]).clamp(1.0, 100.0) };
        run[i].ticks =
            [1, 2, 3, 4, 5, 6, 7, 8].into_iter().find(|&n| f64::from(n) >= ticks - 0.5).unwrap_or(9);
    }
}

/// The first step and the time between two, of steps that were seen at these times.
fn grid_of(seen: &[f64]) -> Option<(f64, f64)> {
    let mut lengths: Vec<f64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    lengths.sort_by(f64::total_cmp);
    // Some steps are seen with the one after them.
    let usual = lengths.get(lengths.len() / 4).copied().filter(|usual| *usual >= SHORTEST_GRID)?;
    let mut period = period_of(&seen[..seen.len().min(ENOUGH_STEPS)], usual)?;
    for _ in 0..2 {
        let number: Vec<f64> = seen.iter().map(|at| ((at - seen[0]) / period).round()).collect();
        let (_, better) = line(&number, seen);
        // A longer run tells the period better, if it was not miscounted.
        period = if (better / period - 1.0).abs() < 1e-3 { better } else { period };
    }
    let mut phases: Vec<f64> = seen.iter().map(|at| (at - seen[0]).rem_euclid(period)).collect();
    phases.sort_by(f64::total_cmp);
    // Steps are seen after they were made: behind the widest gap between phases, around the circle, is the
    // least late of them.
    let around = phases.iter().skip(1).copied().chain([phases[0] + period]);
    let gap = around.zip(&phases).map(|(next, phase)| (next - phase, next));
    let (_, first) = gap.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((seen[0] + first - 2.0 * period, period))
}

/// The period in which these times come, near their usual distance: the one whose phases agree most
/// (Rayleigh's statistic), if they do.
fn period_of(seen: &[f64], usual: f64) -> Option<f64> {
    let (from, until) = PERIODS;
    let length = (seen.last()? - seen[0]).max(usual);
    let step = usual * usual / (8.0 * length);
    let agreement = |period: f64| {
        let angle = |at: &f64| ((at - seen[0]) / period * std::f64::consts::TAU).sin_cos();
        let (x, y) = seen.iter().map(angle).fold((0.0, 0.0), |sum, (sin, cos)| (sum.0 + cos, sum.1 + sin));
        f64::hypot(x, y) / seen.len() as f64
    };
    let mut best = (0.0, usual);
    let mut period = from * usual;
    while period <= until * usual {
        let agrees = agreement(period);
        best = if agrees > best.0 { (agrees, period) } else { best };
        period += step;
    }
    (best.0 >= AGREEMENT).then_some(best.1)
}

/// The straight line through points, by least squares: value at zero and slope.
fn line(x: &[f64], y: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x).powi(2);
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (mean_y - slope * mean_x, slope)
}

/// Windows to learn from: steps, put together where they are short.
pub(super) fn windows_of(steps: &[Step], shown: &[f64]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::with_capacity(steps.len());
    for (&Step { time, ticks }, &joules) in steps.iter().zip(shown) {
        match windows.last_mut() {
            Some(last) if last.time.until == time.from && last.time.length() < SHORTEST_WINDOW => {
                last.time.until = time.until;
                last.ticks += ticks;
                last.joules += joules;
            }
            _ => windows.push(Window { time, ticks, joules }),
        }
    }
    windows
}

/// The stretches that the meter looked at in a window, and what work in them counts for.
pub(super) fn looks_of(window: &Window, meter: Meter) -> impl Iterator<Item = (TimeRange, f64)> {
    // A meter that looks all the time sees one stretch; one that does not, a stretch of each step.
    let parts = if meter.duty < 1.0 || meter.mean > 0.0 { window.ticks.max(1) } else { 1 };
    let (start, length) = (window.time.from, window.time.length() / f64::from(parts));
    (0..parts).map(move |part| {
        let from = start + f64::from(part) * length;
        (meter.looked(TimeRange { from, until: from + length }), meter.counted(length))
    })
}

/// Units of each column in each window, as the meter saw them, window by window.
pub(super) fn units_of(windows: &[Window], batches: &Batches, meter: Meter, columns: usize) -> Vec<f64> {
    let mut units = vec![0.0; windows.len() * columns];
    for (window, row) in windows.iter().zip(units.chunks_mut(columns.max(1))) {
        for (TimeRange { from, until }, counted) in looks_of(window, meter) {
            batches.between(from, until, |cell, part| row[cell.column] += part * counted);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::{Meter, Step, TimeRange, Window, line, looks_of, period_of, regular, steps_of, windows_of};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroJoules;

    /// Steps of 100 ms that are seen up to 20 ms late lie on their grid afterwards; irregular ones stay where
    /// they were seen.
    #[test]
    fn regular_steps_are_put_on_their_grid() {
        let seen = |late: &dyn Fn(u64) -> u64| -> Vec<Step> {
            let at = |i: u64| KtimeNs::from_ns((100 * i + late(i)) * 1_000_000);
            let interval = |i: u64| EnergyInterval {
                span: Span { start: at(i), end: at(i + 1) },
                energy: MicroJoules::ZERO,
            };
            steps_of(&(0..50).map(interval).collect::<Vec<_>>(), KtimeNs::from_ns(0))
        };
        for step in &seen(&|i| i * 7 % 20)[1..48] {
            let off = (step.time.until * 10.0).fract();
            assert!(!(0.02..0.98).contains(&off) && step.ticks == 1, "{step:?}");
        }
        let irregular = seen(&|i| i * i % 90);
        assert!((irregular[6].time.until - 0.749).abs() < 1e-9, "{:?}", irregular[6]);
    }

    /// Where every third step was seen with the one after it, the grid is the same and the interval holds two
    /// steps.
    #[test]
    fn steps_that_were_not_seen_are_counted() {
        let at = |i: u64| KtimeNs::from_ns((100 * i + i % 7) * 1_000_000);
        let times: Vec<u64> = (0..60).filter(|i| i % 3 != 2).collect();
        let interval = |pair: &[u64]| EnergyInterval {
            span: Span { start: at(pair[0]), end: at(pair[1]) },
            energy: MicroJoules::ZERO,
        };
        let intervals: Vec<EnergyInterval> = times.windows(2).map(interval).collect();
        let ticks: Vec<u32> =
            steps_of(&intervals, KtimeNs::from_ns(0)).iter().map(|step| step.ticks).collect();
        assert_eq!(ticks[2..8], [1, 2, 1, 2, 1, 2], "{ticks:?}");
    }

    /// A meter that is 30 ms late and looks at the last quarter of a step of 100 ms; and one that says the
    /// mean of a second.
    #[test]
    fn looks() {
        let close = |found: TimeRange, from: f64, until: f64| {
            assert!((found.from - from).abs() < 1e-12 && (found.until - until).abs() < 1e-12, "{found:?}");
        };
        let window = TimeRange { from: 1.0, until: 1.1 };
        let part = Meter { late: 0.03, duty: 0.25, mean: 0.0 };
        let mean = Meter { mean: 1.0, ..part };
        close(part.looked(window), 1.045, 1.07);
        close(mean.looked(window), 0.07, 1.07);
        assert_eq!((part.counted(0.1), mean.counted(0.1), Meter::PROMPT.counted(0.1)), (4.0, 0.1, 1.0));
        let two = Window { time: TimeRange { from: 1.0, until: 1.2 }, ticks: 2, joules: 0.0 };
        let found: Vec<(TimeRange, f64)> = looks_of(&two, part).collect();
        close(found[0].0, 1.045, 1.07);
        close(found[1].0, 1.145, 1.17);
        assert_eq!((found.len(), found[0].1), (2, 4.0));
        let prompt: Vec<(TimeRange, f64)> = looks_of(&two, Meter::PROMPT).collect();
        close(prompt[0].0, 1.0, 1.2);
        assert_eq!((prompt.len(), prompt[0].1), (1, 1.0));
    }

    /// Steps of 40 ms are put together by threes; a gap and a long step are not.
    #[test]
    fn short_steps_are_put_together() {
        let step = |from: f64, until: f64| Step { time: TimeRange { from, until }, ticks: 1 };
        let steps = [
            step(0.0, 0.04),
            step(0.04, 0.08),
            step(0.08, 0.12),
            step(0.12, 0.16),
            step(0.5, 0.6),
            step(0.6, 0.7),
        ];
        let found = windows_of(&steps, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let of: Vec<_> = found.iter().map(|window| (window.ticks, window.joules)).collect();
        assert_eq!(of, [(3, 6.0), (1, 4.0), (1, 5.0), (1, 6.0)]);
    }

    /// Least squares of three points by hand; points above each other have no slope. A period in spite of
    /// phases, and none where times are random.
    #[test]
    fn lines_and_periods() {
        let (zero, slope) = line(&[0.0, 1.0, 2.0], &[1.0, 3.0, 4.0]);
        assert!((zero - 7.0 / 6.0).abs() < 1e-12 && (slope - 1.5).abs() < 1e-12);
        assert_eq!(line(&[2.0, 2.0], &[1.0, 3.0]), (2.0, 0.0));
        let at = |late: fn(u32) -> u32| -> Vec<f64> {
            (0..100).map(|i| 0.1 * f64::from(i) + 1e-3 * f64::from(late(i))).collect()
        };
        let found = period_of(&at(|i| i * 7 % 20), 0.095).unwrap();
        assert!((found - 0.1).abs() < 5e-4, "{found}");
        assert_eq!(period_of(&at(|i| i * i * 37 % 101), 0.09), None);
    }

    /// Steps of 100 ms that were read each 40 ms seem 80 and 120 ms long: each is as long as it was, with its
    /// energy; the ends of a run, and a gap, stay.
    #[test]
    fn steps_are_as_long_as_they_were() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let interval = |from: u64, until: u64| EnergyInterval {
            span: Span::new(ms(from), ms(until)),
            energy: MicroJoules::from_uj(12_000_000),
        };
        let seen = |step: u64| step.div_ceil(2) * 120 + step / 2 * 80;
        let mut seen: Vec<EnergyInterval> = (0..40).map(|i| interval(seen(i) + 7, seen(i + 1) + 7)).collect();
        seen.push(interval(6_000, 6_030));
        let regular = regular(&seen);
        let lengths: Vec<u64> = regular.iter().map(|interval| interval.span.ns() / 1_000_000).collect();
        assert!(lengths[2..38].iter().all(|length| (99..=100).contains(length)), "{lengths:?}");
        assert_eq!((regular[0].span.start, regular[39].span.end), (seen[0].span.start, seen[39].span.end));
        assert_eq!(regular[40], seen[40]);
        assert!(regular.windows(2).take(39).all(|pair| pair[0].span.end == pair[1].span.start));
        assert!(regular.iter().zip(&seen).all(|(regular, seen)| regular.energy == seen.energy));
    }
}
