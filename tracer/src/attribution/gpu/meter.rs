//! The meter's view of launches: what of them each window of its counter holds.
//!
//! A GPU's counter steps about every 100 ms (20 ms on some boards), and what it shows happened a while before: 30 ms of lag that nobody
//! models make errors of 80 % (SIM, research of this project). Some boards look only during the last part of each step, 25 of 100 ms, and
//! take that for the whole (Yang et al.: Part-time Power Measurements, SC 2024). Both are found by trying: the lag and the part that explain
//! the counter best. Steps come at regular times but are seen when somebody reads, so their times are put on a grid where one fits.
//! Leaves out what launches cost (`energies`).

use super::batches::{Batches, Stretch};
use crate::clock::KtimeNs;
use crate::timeline::{EnergyInterval, Span};
use crate::units::MicroJoules;

/// Windows shorter than this are put together: the moment of reading would be most of them.
const SHORTEST: f64 = 0.09;
/// Steps shorter than this come as fast as readings: no grid is to be seen.
const SHORTEST_GRID: f64 = 0.05;
/// Intervals of a run in which a grid is looked for.
const FEWEST_ON_GRID: usize = 20;
/// How far from the grid steps may be seen, in steps.
const OFF_GRID: f64 = 0.3;

/// How a meter is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Meter {
    /// Seconds from the work to its counting.
    pub(super) late: f64,
    /// The part of each step that it looks at, the last one.
    pub(super) duty: f64,
}

impl Meter {
    /// Neither late nor idle.
    pub(super) const PROMPT: Self = Self { late: 0.0, duty: 1.0 };

    /// When that happened which it counted in a window.
    pub(super) fn looked(self, window: Stretch) -> Stretch {
        let until = window.until - self.late;
        Stretch { from: until - self.duty * window.length(), until }
    }
}

/// A stretch of the counter to learn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) time: Stretch,
    /// Energy above idle.
    pub(super) joules: f64,
}

/// Seconds from the start of the recording.
pub(super) fn seconds(at: KtimeNs, start: KtimeNs) -> f64 {
    at.ns_since(start) as f64 / 1e9 - start.ns_since(at) as f64 / 1e9
}

pub(super) fn stretch_of(span: Span, start: KtimeNs) -> Stretch {
    Stretch { from: seconds(span.start, start), until: seconds(span.end, start) }
}

/// When the steps of each interval were made.
pub(super) fn steps_of(intervals: &[EnergyInterval], start: KtimeNs) -> Vec<Stretch> {
    let mut steps: Vec<Stretch> = intervals.iter().map(|interval| stretch_of(interval.span, start)).collect();
    for run in steps.chunk_by_mut(|before, after| (before.until - after.from).abs() < 1e-9) {
        put_on_grid(run);
    }
    steps
}

/// Puts the steps of a run without gaps on a grid, if they are near one.
fn put_on_grid(run: &mut [Stretch]) {
    // The ends of a run are readings, not steps.
    let Some(inner) = run.len().checked_sub(1).filter(|inner| *inner >= FEWEST_ON_GRID) else { return };
    let mut lengths: Vec<f64> = run.iter().map(|step| step.length()).collect();
    lengths.sort_by(f64::total_cmp);
    let mut period = lengths[lengths.len() / 2];
    if period < SHORTEST_GRID {
        return;
    }
    let seen: Vec<f64> = run[..inner].iter().map(|step| step.until).collect();
    let mut first = seen[0];
    let mut number = vec![0.0; inner];
    for _ in 0..2 {
        for i in 1..inner {
            number[i] = number[i - 1] + ((seen[i] - seen[i - 1]) / period).round().max(1.0);
        }
        (first, period) = line(&number, &seen);
    }
    let on_grid: Vec<f64> = number.iter().map(|n| first + n * period).collect();
    let off = on_grid.iter().zip(&seen).filter(|(grid, seen)| (*grid - *seen).abs() > OFF_GRID * period);
    if off.count() * 20 > inner {
        return;
    }
    for (i, at) in on_grid.into_iter().enumerate() {
        run[i].until = at;
        run[i + 1].from = at;
    }
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
pub(super) fn windows_of(steps: &[Stretch], dynamic: &[MicroJoules]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::with_capacity(steps.len());
    for (&step, energy) in steps.iter().zip(dynamic) {
        match windows.last_mut() {
            Some(last) if last.time.until == step.from && last.time.length() < SHORTEST => {
                last.time.until = step.until;
                last.joules += energy.as_joules();
            }
            _ => windows.push(Window { time: step, joules: energy.as_joules() }),
        }
    }
    windows
}

/// Units of each column in each window, as the meter saw them, window by window.
pub(super) fn units_of(windows: &[Window], batches: &Batches, meter: Meter, columns: usize) -> Vec<f64> {
    let mut units = vec![0.0; windows.len() * columns];
    for (window, row) in windows.iter().zip(units.chunks_mut(columns.max(1))) {
        let Stretch { from, until } = meter.looked(window.time);
        batches.between(from, until, |cell, part| row[cell.column] += part / meter.duty);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::{Stretch, steps_of};
    use crate::clock::KtimeNs;
    use crate::timeline::{EnergyInterval, Span};
    use crate::units::MicroJoules;

    /// Steps of 100 ms that are seen up to 20 ms late lie on their grid afterwards; irregular ones stay where they were seen.
    #[test]
    fn regular_steps_are_put_on_their_grid() {
        let seen = |late: &dyn Fn(u64) -> u64| -> Vec<Stretch> {
            let at = |i: u64| KtimeNs::from_ns((100 * i + late(i)) * 1_000_000);
            let interval = |i: u64| EnergyInterval {
                span: Span { start: at(i), end: at(i + 1) },
                energy: MicroJoules::ZERO,
            };
            steps_of(&(0..50).map(interval).collect::<Vec<_>>(), KtimeNs::from_ns(0))
        };
        for step in &seen(&|i| i * 7 % 20)[1..48] {
            let off = (step.until * 10.0).fract();
            assert!((0.05..0.14).contains(&off), "{step:?}");
        }
        let irregular = seen(&|i| i * i % 90);
        assert!((irregular[6].until - 0.749).abs() < 1e-9, "{:?}", irregular[6]);
    }
}
