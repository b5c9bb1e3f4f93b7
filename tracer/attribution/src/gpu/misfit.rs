//! Whether the counter's windows are what launches of one energy each, and a meter that is late by one time,
//! would make of them.
//!
//! A sensor that follows the board's power slowly shows in each window some of what the one before held. The
//! search for the meter takes that for lag, and energies come out wrong. But what windows stray by then goes
//! with the windows beside them (the score test of a regression's missing terms: Breusch and Pagan, 1980):
//!
//! ```text
//! r_k = a (p_{k-1} - p_k) + b (p_{k+1} - p_k) + noise     p: predicted watts; r: what is shown beyond them
//! ```
//!
//! `a + b` is how much of the windows beside it each one shows. Leaves out what follows (`estimate`): nothing
//! is identified then.

use super::constants::{MOST_OF_NEIGHBOURS, UNEXPLAINED};
use super::launch_energies::Problem;
use super::meter::Window;
use crate::numerics::normal_equations::NormalEquations;
use energy_trace_model::profile::diagnostics::GpuMisfit;

/// Windows: fewer show nothing of their neighbours.
const FEWEST: u32 = 20;
/// Windows whose ends are no further apart follow each other, in seconds.
const TOUCH: f64 = 1e-6;
/// The 99th percentile of chi-squared with two degrees of freedom.
const CHI_SQUARED_99: f64 = 9.210_34;

/// What is wrong with parts (`over_time`) and meter; `timed`: it is known when kernels ran.
pub(super) fn misfit(
    problem: &Problem,
    windows: &[Window],
    over_time: &[(usize, Vec<f64>)],
    timed: bool,
) -> Option<GpuMisfit> {
    let most = if timed { UNEXPLAINED.0 } else { UNEXPLAINED.1 };
    let watts = Watts::of(problem, windows, over_time);
    if watts.of_neighbours(windows) > MOST_OF_NEIGHBOURS {
        Some(GpuMisfit::SlowSensor)
    } else {
        (problem.unexplained(over_time) > most).then_some(GpuMisfit::Unexplained)
    }
}

/// What each window holds by the parts, and what the counter shows beyond that, in watts.
struct Watts {
    predicted: Vec<f64>,
    beyond: Vec<f64>,
}

impl Watts {
    fn of(problem: &Problem, windows: &[Window], over_time: &[(usize, Vec<f64>)]) -> Self {
        let of_windows = problem.predicted(over_time).zip(&problem.joules).zip(windows);
        let (predicted, beyond) = of_windows
            .map(|((predicted, joules), window)| {
                let (predicted, length) = (predicted.unwrap_or(0.0), window.time.length().max(1e-9));
                (predicted / length, (joules - predicted) / length)
            })
            .unzip();
        Self { predicted, beyond }
    }

    /// How much of its neighbours a window shows, in parts of what they differ from it by; 0 where that is
    /// not clear.
    fn of_neighbours(&self, windows: &[Window]) -> f64 {
        let mut normal = NormalEquations::new(2);
        let (mut squares, mut count) = (0.0, 0);
        let places = windows.windows(3).zip(self.predicted.windows(3)).zip(self.beyond.iter().skip(1));
        for ((windows, predicted), &beyond) in places {
            let (&[before, this, after], &[p, q, r]) = (windows, predicted) else { continue };
            if touch(before, this) && touch(this, after) {
                normal.add_row(&[(0, p - q), (1, r - q)], beyond, 1.0);
                (squares, count) = (squares + beyond * beyond, count + 1);
            }
        }
        let Some(factor) = normal.factor().filter(|_| count >= FEWEST && squares > 0.0) else { return 0.0 };
        let parts = factor.solve(&normal.target);
        // The score statistic: so many windows times the part of the squares that is explained.
        let score = f64::from(count) * parts.dot(&normal.target) / squares;
        if score > CHI_SQUARED_99 { parts.sum() } else { 0.0 }
    }
}

/// Whether one window begins where the other ends.
fn touch(before: Window, after: Window) -> bool {
    (before.time.until - after.time.from).abs() < TOUCH
}

#[cfg(test)]
mod tests {
    use super::{GpuMisfit, Problem, Window, misfit};
    use crate::gpu::batches::TimeRange;
    use crate::gpu::launch_energies::rows_of;

    const COUNT: u32 = 400;

    fn windows() -> Vec<Window> {
        let from = |place: u32| f64::from(place) / 10.0;
        let time = |place| TimeRange { from: from(place), until: from(place + 1) };
        (0..COUNT).map(|place| Window { time: time(place), ticks: 1, joules: 0.0 }).collect()
    }

    /// One column of changing units, a joule each, and what the counter makes of it; `noise` in joules.
    fn problem(noise: f64, shown: impl Fn(&[f64], usize) -> f64) -> Problem {
        let rows: Vec<f64> = (0..COUNT).map(|place| f64::from(1 + place * 7 % 11)).collect();
        let odd = |place: usize| f64::from(u8::try_from(place * 37 % 13).unwrap_or(0)) - 6.0;
        let joules = (0..rows.len()).map(|place| shown(&rows, place) + noise * odd(place) / 4.0).collect();
        Problem { columns: 1, joules, rows: rows_of(&rows, &[1.0]), belief: 5.0, together: 0, errors: None }
    }

    fn found(problem: &Problem) -> Option<GpuMisfit> {
        misfit(problem, &windows(), &[(problem.len(), vec![1.0])], true)
    }

    /// A counter that shows a fifth of each window in the next one is slow, also where it is noisy; one that
    /// is only noisy is not.
    #[test]
    fn slow_sensors() {
        let slow = |rows: &[f64], place: usize| 0.8 * rows[place] + 0.2 * rows[place.saturating_sub(1)];
        assert_eq!(found(&problem(0.0, slow)), Some(GpuMisfit::SlowSensor));
        assert_eq!(found(&problem(0.2, slow)), Some(GpuMisfit::SlowSensor));
        assert_eq!(found(&problem(0.2, |rows, place| rows[place])), None);
    }

    /// A counter that strays by more than a tenth of what windows differ by, and not by its neighbours, is
    /// not explained.
    #[test]
    fn what_is_not_explained() {
        assert_eq!(found(&problem(1.0, |rows, place| rows[place])), Some(GpuMisfit::Unexplained));
    }

    /// A few windows, or ones with gaps between them, show nothing of their neighbours.
    #[test]
    fn no_neighbours() {
        let slow = problem(0.0, |rows, place| 0.97 * rows[place] + 0.03 * rows[place.saturating_sub(1)]);
        assert_eq!(found(&slow), Some(GpuMisfit::SlowSensor));
        let mut apart = windows();
        apart.iter_mut().for_each(|window| window.time.until -= 0.01);
        assert_eq!(misfit(&slow, &apart, &[(slow.len(), vec![1.0])], true), None);
    }
}
