//! Energy of a launch of each column, learned from the counter.
//!
//! ```text
//! E_k = Σ_c e_c · n_kc + noise       k: window, n_kc: units of column c that the meter saw in it,
//!                                    e_c ≥ 0: joules per unit
//! ```
//!
//! Idle power is pinned beforehand: as a free unknown it takes minutes to learn (SIM: 13 % error after 60 s
//! instead of 1 %). Unknowns are the parts `e_c / prior_c`, believed to be 1 before: the prior is a launch's
//! duration times the mean power where waits showed durations, else the same energy for every launch. Windows
//! far off count less (Huber, 1981). What launches cost is believed when it predicts windows that were left
//! out better than the prior does. Boards get warm and change clocks: in a long run parts are learned again
//! for each three quarters of a minute, near those of the whole, if that predicts better. Leaves out the
//! meter (`meter`) and doubts (`uncertainty`).

use super::batches::Batches;
use super::constants::{
    AGAIN, BETTER_DUTY, DUTIES, ENOUGH_WINDOWS, FEWEST_WINDOWS, FOLD_BLOCK, FOLDS, HUBER, LAG_STEPS, LAGS,
    LEAST_PART, MEANS, NEAR_WHOLE, ROUNDS,
};
use super::errors_in_variables::{FeatureError, errors_of};
use super::meter::{Meter, Window, units_of};
use crate::numerics::normal_equations::NormalEquations;
use crate::numerics::shares::{Row, predicted};
use nalgebra::DVector;

/// The median of the absolute value of a standard normal variable.
const MEDIAN_ABSOLUTE: f64 = 0.6745;

/// Windows and the units in them, in parts of the prior: joules if every part is 1.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) columns: usize,
    pub(super) joules: Vec<f64>,
    pub(super) rows: Vec<Vec<(usize, f64)>>,
    /// Standard deviation of what is believed of parts.
    pub(super) belief: f64,
    /// Neighbouring windows whose errors may go together: those of a few means of the meter.
    pub(super) together: usize,
    /// Variance of a row's error in each column (J²), where it is known.
    pub(super) errors: Option<DVector<f64>>,
}

/// Parts of the prior, and how windows stray from them.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) parts: Vec<f64>,
    /// Standard deviation of a window, in joules.
    pub(super) noise: f64,
    /// What each window counts for.
    pub(super) trust: Vec<f64>,
}

impl Problem {
    pub(super) fn new(
        windows: &[Window],
        batches: &Batches,
        meter: Meter,
        prior: &[f64],
        belief: f64,
    ) -> Self {
        let rows = rows_of(&units_of(windows, batches, meter, prior.len()), prior);
        let all: f64 = windows.iter().map(|window| window.time.length()).sum();
        Self {
            together: (MEANS * meter.mean * windows.len() as f64 / all.max(1e-9)).ceil() as usize,
            columns: prior.len(),
            joules: windows.iter().map(|window| window.joules).collect(),
            rows,
            belief,
            errors: None,
        }
    }

    /// The same with the errors of its rows.
    pub(super) fn with_errors(
        self,
        windows: &[Window],
        batches: &Batches,
        meter: Meter,
        (prior, coarse): (&[f64], &[FeatureError]),
    ) -> Self {
        let errors = errors_of(windows, batches, meter, coarse);
        let errors = DVector::from_fn(prior.len(), |c, _| errors[c] * prior[c] * prior[c]);
        Self { errors: Some(errors), ..self }
    }

    pub(super) const fn len(&self) -> usize {
        self.joules.len()
    }

    fn row(&self, window: usize) -> &Row {
        self.rows.get(window).map_or(&[], Vec::as_slice)
    }

    /// Each window's row, and its energy in joules.
    pub(super) fn windows(&self) -> impl Iterator<Item = (&Row, f64)> {
        self.rows.iter().map(Vec::as_slice).zip(self.joules.iter().copied())
    }

    fn error(&self, window: usize, parts: &[f64]) -> f64 {
        self.joules[window] - predicted(self.row(window), parts)
    }

    /// What is observed in some windows.
    pub(super) fn observed(&self, trust: &[f64], windows: impl Iterator<Item = usize>) -> NormalEquations {
        let rows = windows.map(|window| (self.row(window), self.joules[window], trust[window]));
        NormalEquations::of_rows(self.columns, rows)
    }

    /// What is observed in all windows if each counts once.
    pub(super) fn unweighted(&self) -> NormalEquations {
        self.observed(&vec![1.0; self.len()], 0..self.len())
    }

    /// What is observed in the windows that are wanted, and believed.
    pub(super) fn normal(&self, trust: &[f64], wanted: impl Fn(usize) -> bool) -> NormalEquations {
        let mut normal = self.observed(trust, (0..self.len()).filter(|&window| wanted(window)));
        normal.add_prior(1.0, 1.0 / (self.belief * self.belief));
        normal
    }

    /// The parts that explain the windows that are wanted.
    fn parts(&self, trust: &[f64], wanted: impl Fn(usize) -> bool) -> Vec<f64> {
        self.normal(trust, wanted).solve(1.0, LEAST_PART).data.into()
    }

    /// The parts that explain the windows best.
    pub(super) fn fit(&self, rounds: usize) -> Fit {
        let spread =
            (self.joules.iter().map(|joules| joules * joules).sum::<f64>() / self.len().max(1) as f64).sqrt();
        let noise = (spread * 0.02).max(1e-6);
        let mut fit =
            Fit { parts: vec![1.0; self.columns], noise, trust: vec![1.0 / (noise * noise); self.len()] };
        for _ in 0..rounds {
            fit.parts = self.parts(&fit.trust, |_| true);
            self.weigh(&mut fit, spread * 1e-4);
        }
        fit
    }

    /// Finds the noise and what each window counts for.
    fn weigh(&self, fit: &mut Fit, floor: f64) {
        let errors: Vec<f64> = (0..self.len()).map(|window| self.error(window, &fit.parts).abs()).collect();
        let mut sorted = errors.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        fit.noise = (median / MEDIAN_ABSOLUTE).max(floor).max(1e-6);
        let trust = |error: &f64| (HUBER * fit.noise / error.max(1e-12)).min(1.0) / (fit.noise * fit.noise);
        fit.trust = errors.iter().map(trust).collect();
    }

    /// Sum of what windows are off, large errors by their size instead of their square, in units of `noise`.
    fn cost(&self, parts: &[f64], noise: f64) -> f64 {
        let cost = |window| {
            let z = self.error(window, parts).abs() / noise;
            if z > HUBER { HUBER * (2.0 * z - HUBER) } else { z * z }
        };
        (0..self.len()).map(cost).sum()
    }

    /// What each window is expected to hold by the parts of its stretch (`over_time`); `None` where no
    /// stretch has it.
    pub(super) fn predicted(&self, over_time: &[(usize, Vec<f64>)]) -> impl Iterator<Item = Option<f64>> {
        (0..self.len()).map(|window| {
            let (_, parts) = over_time.iter().find(|(until, _)| window < *until)?;
            Some(predicted(self.row(window), parts))
        })
    }

    /// By how much windows stray from parts (`over_time`), beside how much they differ: standard deviations,
    /// the former by the median. 0 where they do not differ.
    pub(super) fn unexplained(&self, over_time: &[(usize, Vec<f64>)]) -> f64 {
        let windows = self.joules.iter().zip(self.predicted(over_time));
        let mut errors: Vec<f64> =
            windows.filter_map(|(joules, predicted)| Some((joules - predicted?).abs())).collect();
        errors.sort_by(f64::total_cmp);
        let count = self.len().max(1) as f64;
        let mean = self.joules.iter().sum::<f64>() / count;
        let square = self.joules.iter().map(|joules| (joules - mean).powi(2)).sum::<f64>() / count;
        let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
        let ratio = median / MEDIAN_ABSOLUTE / square.sqrt();
        if ratio.is_finite() { ratio } else { 0.0 }
    }

    /// Whether parts fitted on the other folds predict a fold better than equal ones do, by more than two
    /// standard errors.
    pub(super) fn predicts_better(&self, fit: &Fit) -> bool {
        if self.len() < FEWEST_WINDOWS {
            return false;
        }
        let fold_of = |window: usize| window / FOLD_BLOCK % FOLDS;
        let mut gains = vec![0.0; self.len().div_ceil(FOLD_BLOCK)];
        for fold in 0..FOLDS {
            let parts = self.parts(&fit.trust, |window| fold_of(window) != fold);
            let level = self.level(&fit.trust, |window| fold_of(window) != fold);
            let level = vec![level; self.columns];
            for window in (0..self.len()).filter(|&window| fold_of(window) == fold) {
                let (equal, fitted) = (self.error(window, &level), self.error(window, &parts));
                gains[window / FOLD_BLOCK] += fit.trust[window] * (equal * equal - fitted * fitted);
            }
        }
        clearly_positive(&gains)
    }

    /// Which part of all energy a steady power explains, if there may be one beside the launches. There is none; but
    /// launches that ran at other times than is known seem to matter less than they do, and it has what they lack.
    pub(super) fn steady_part(&self, fit: &Fit, seconds: impl Iterator<Item = f64> + Clone) -> f64 {
        let watts = self.joules.iter().sum::<f64>() / seconds.clone().sum::<f64>().max(1e-9);
        let steady = |seconds: f64| (self.columns, seconds * watts);
        let rows = self.rows.iter().zip(seconds).map(|(row, seconds)| [row, &[steady(seconds)][..]].concat());
        let rows =
            rows.zip(&self.joules).zip(&fit.trust).map(|((row, joules), trust)| (row, *joules, *trust));
        let mut normal = NormalEquations::of_rows(self.columns + 1, rows);
        (0..self.columns)
            .for_each(|column| normal.add_prior_of(column, 1.0, 1.0 / (self.belief * self.belief)));
        normal.solve(1.0, LEAST_PART)[self.columns]
    }

    /// The one part for all columns that explains the windows best.
    pub(super) fn level(&self, trust: &[f64], wanted: impl Fn(usize) -> bool) -> f64 {
        let (mut xy, mut xx) = (0.0, 1e-12);
        for window in (0..self.len()).filter(|&window| wanted(window)) {
            let sum: f64 = self.row(window).iter().map(|(_, x)| x).sum();
            xy += trust[window] * sum * self.joules[window];
            xx += trust[window] * sum * sum;
        }
        (xy / xx).max(0.0)
    }
}

fn clearly_positive(gains: &[f64]) -> bool {
    let n = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / n;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    mean > 2.0 * (variance / n).sqrt()
}

/// The meter that explains the windows best, and the prior with it. What it is a mean over is known before.
pub(super) fn find_meter(
    windows: &[Window],
    batches: &Batches,
    prior: &[f64],
    belief: f64,
    mean: f64,
) -> Meter {
    let windows = &windows[..windows.len().min(ENOUGH_WINDOWS)];
    let prompt = Meter { mean, ..Meter::PROMPT };
    if windows.len() < FEWEST_WINDOWS {
        return prompt;
    }
    let noise = Problem::new(windows, batches, prompt, prior, belief).fit(2).noise;
    let cost = |meter: Meter| {
        let problem = Problem::new(windows, batches, meter, prior, belief);
        problem.cost(&problem.fit(1).parts, noise)
    };
    let best_late = |duty: f64| {
        let (mut low, mut high) = LAGS;
        let mut best = (f64::INFINITY, Meter { late: 0.0, duty, mean });
        for step in LAG_STEPS {
            let mut late = low;
            while late <= high {
                let meter = Meter { late, duty, mean };
                let cost = cost(meter);
                if cost < best.0 {
                    best = (cost, meter);
                }
                late += step;
            }
            (low, high) = (best.1.late - step, best.1.late + step);
        }
        best
    };
    let whole = best_late(DUTIES[0]);
    if mean > 0.0 {
        return whole.1;
    }
    let others = DUTIES[1..].iter().map(|&duty| best_late(duty));
    let best = others.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|other| other.0 < BETTER_DUTY * whole.0);
    best.unwrap_or(whole).1
}

/// Fits a problem, with all rounds.
pub(super) fn fit(problem: &Problem) -> Fit {
    problem.fit(ROUNDS)
}

/// Only the parts of a problem that was fitted with nearly the same rows.
pub(super) fn fit_parts(problem: &Problem) -> Vec<f64> {
    problem.fit(2).parts
}

/// Parts of the prior for each stretch of windows: the whole run's, or in a long run those learned again.
/// With each the first window that it is not for.
pub(super) fn over_time(problem: &Problem, fit: &Fit) -> Vec<(usize, Vec<f64>)> {
    let whole = vec![(problem.len(), fit.parts.clone())];
    let count = problem.len() / AGAIN;
    if count < 2 {
        return whole;
    }
    let length = problem.len().div_ceil(count);
    let mut gains = Vec::new();
    let mut found = Vec::new();
    for from in (0..problem.len()).step_by(length) {
        let until = (from + length).min(problem.len());
        let near = near(problem, fit, from..until);
        let trust = &fit.trust[from..until];
        for fold in 0..FOLDS {
            let fold_of = |window: usize| window / FOLD_BLOCK % FOLDS;
            let again = near.parts(trust, |window| fold_of(window) != fold);
            let ones = vec![1.0; problem.columns];
            let gain = |window: usize| {
                let (old, new) = (near.error(window, &ones), near.error(window, &again));
                trust[window] * (old * old - new * new)
            };
            gains.push((0..near.len()).filter(|&window| fold_of(window) == fold).map(gain).sum());
        }
        let again = near.parts(trust, |_| true);
        found.push((until, again.iter().zip(&fit.parts).map(|(again, part)| again * part).collect()));
    }
    if clearly_positive(&gains) { found } else { whole }
}

/// A stretch of a problem, in parts of what the whole run showed.
fn near(problem: &Problem, fit: &Fit, windows: std::ops::Range<usize>) -> Problem {
    let columns = problem.columns;
    let mut rows = problem.rows[windows.clone()].to_vec();
    rows.iter_mut().flatten().for_each(|(column, joules)| *joules *= fit.parts[*column]);
    let (joules, together) = (problem.joules[windows].to_vec(), problem.together);
    Problem { columns, joules, rows, belief: NEAR_WHOLE, together, errors: None }
}

/// Rows of units, one after the other, in joules.
pub(super) fn rows_of(units: &[f64], prior: &[f64]) -> Vec<Vec<(usize, f64)>> {
    let joules = |(column, (units, joules)): (usize, (&f64, &f64))| (column, units * joules);
    let row =
        |row: &[f64]| row.iter().zip(prior).enumerate().map(joules).filter(|(_, x)| *x != 0.0).collect();
    units.chunks(prior.len().max(1)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{FOLD_BLOCK, HUBER, MEDIAN_ABSOLUTE, Problem, clearly_positive, fit, over_time, rows_of};
    use crate::tests::vectors::Vectors;

    fn problem(columns: usize, rows: &[f64], joules: Vec<f64>) -> Problem {
        let rows = rows_of(rows, &vec![1.0; columns]);
        Problem { columns, joules, rows, belief: 5.0, together: 0, errors: None }
    }

    /// Windows of two columns; `parts` says what each unit takes in a window.
    fn two(windows: u32, parts: impl Fn(u32) -> [f64; 2]) -> Problem {
        let row = |window: u32| [f64::from(1 + window % 7), f64::from(1 + window * 5 % 11)];
        let joules = |window| row(window).iter().zip(parts(window)).map(|(x, part)| x * part).sum();
        problem(2, &(0..windows).flat_map(row).collect::<Vec<_>>(), (0..windows).map(joules).collect())
    }

    /// Exact windows show their parts, and one that is off by a hundred joules changes them by less than what
    /// it says.
    #[test]
    fn parts_are_found_and_one_window_is_not_believed() {
        let mut problem = two(300, |_| [1.5, 0.5]);
        let exact = fit(&problem);
        assert!((exact.parts[0] - 1.5).abs() < 1e-3 && (exact.parts[1] - 0.5).abs() < 1e-3, "{exact:?}");
        problem.joules[100] += 100.0;
        let fit = fit(&problem);
        assert!((fit.parts[0] - 1.5).abs() < 0.01 && (fit.parts[1] - 0.5).abs() < 0.01, "{:?}", fit.parts);
        assert!(fit.trust[100] < 0.01 * fit.trust[101]);
    }

    /// Noise is the median error by that of a normal variable; a window counts by its inverse square, less by
    /// how far it is beyond Huber's limit.
    #[test]
    fn windows_count_by_their_errors() {
        let problem = problem(1, &[0.0; 5], vec![1.0, -2.0, 3.0, 0.5, 100.0]);
        let mut fit = problem.fit(0);
        problem.weigh(&mut fit, 1e-6);
        let noise = 2.0 / MEDIAN_ABSOLUTE;
        assert!((fit.noise - noise).abs() < 1e-12);
        assert!((fit.trust[0] - noise.powi(-2)).abs() < 1e-12);
        assert!((fit.trust[4] - HUBER / (100.0 * noise)).abs() < 1e-12);
    }

    /// Huber's function, by hand: z² up to 2.5, 2.5 (2 z − 2.5) beyond.
    #[test]
    fn large_errors_cost_by_their_size() {
        let problem = problem(1, &[0.0; 2], vec![4.0, -8.0]);
        assert!((problem.cost(&[1.0], 2.0) - (4.0 + 2.5 * (8.0 - 2.5))).abs() < 1e-12);
    }

    /// Least squares of one unknown, by hand: Σ w s y / Σ w s², and never below zero.
    #[test]
    fn one_part_for_all() {
        let problem = problem(2, &[1.0, 2.0, 2.0, 2.0], vec![6.0, 4.0]);
        let level = problem.level(&[1.0, 0.5], |_| true);
        assert!((level - (3.0 * 6.0 + 0.5 * 4.0 * 4.0) / (9.0 + 0.5 * 16.0)).abs() < 1e-9, "{level}");
        assert!((problem.level(&[1.0, 0.5], |window| window == 1) - 1.0).abs() < 1e-9);
        let negative = Problem { joules: vec![-1.0, -1.0], ..problem };
        assert_eq!(negative.level(&[1.0, 1.0], |_| true), 0.0);
    }

    /// More than two standard errors above zero: of 3, 1, 2 the mean is 2 and two standard errors are 1.15;
    /// of 3, −1, 1 they are 1 and 2.3.
    #[test]
    fn gains_must_be_clear() {
        assert!(clearly_positive(&[3.0, 1.0, 2.0]) && clearly_positive(&[1.0, 1.0]));
        assert!(!clearly_positive(&[3.0, -1.0, 1.0]) && !clearly_positive(&[-1.0, -1.0]));
        assert!(!clearly_positive(&[]));
    }

    /// Windows that parts explain, stretch by stretch, stray by nothing; by parts that are off they stray,
    /// and more the more these are off.
    #[test]
    fn what_is_left_unexplained() {
        let differ = two(300, |window| [1.5, 0.5 + 0.01 * f64::from(window % 3)]);
        let parts = fit(&differ).parts;
        let explained = [(differ.len(), parts.clone())];
        assert!(differ.unexplained(&explained) < 0.05, "{}", differ.unexplained(&explained));
        let off = |by: f64| parts.iter().map(|part| part * (1.0 + by)).collect::<Vec<_>>();
        let (half, whole) = ([(150, parts.clone()), (300, off(0.5))], [(300, off(0.5))]);
        assert!(differ.unexplained(&whole) > differ.unexplained(&half) && differ.unexplained(&whole) > 1.0);
        assert_eq!(differ.unexplained(&[]), 0.0);
    }

    /// Parts that differ predict windows that were left out; equal ones do not, nor do few windows.
    #[test]
    fn what_predicts_is_believed() {
        let differ = two(300, |window| [1.5, 0.5 + 0.01 * f64::from(window % 3)]);
        assert!(differ.predicts_better(&fit(&differ)));
        let alike = two(300, |window| [1.0 + 0.1 * f64::from(window % 2); 2]);
        assert!(!alike.predicts_better(&fit(&alike)));
        let few = two(30, |_| [1.5, 0.5]);
        assert!(!few.predicts_better(&fit(&few)));
    }

    /// Two columns at a steady rate that draw alike, of which the first is known with errors of a fifth: it seems to draw
    /// less, and predicts windows better so. A steady power does as well then, but none does where counts are exact.
    #[test]
    fn errors_of_times_are_no_powers() {
        let error = |window: u32| 4.0 * f64::from([1, -1, 1, -1, 0, -1, 1, 0, -1, 1][window as usize % 10]);
        let slow = |window: u32| f64::from(window / 10 * 7 % 5);
        let row = |window: u32| [20.0 + slow(window) + error(window), 4.0 + 0.1 * f64::from(window * 3 % 7)];
        let rows: Vec<f64> = (0..300).flat_map(row).collect();
        let steady = problem(2, &rows, (0..300).map(|window| 24.3 + slow(window)).collect());
        let found = fit(&steady);
        assert!(found.parts[0] < 0.7 && found.parts[1] > 2.0, "{:?}", found.parts);
        let seconds = || std::iter::repeat_n(0.1, 300);
        let part = steady.steady_part(&found, seconds());
        assert!(steady.predicts_better(&found) && part > 0.3, "{part}");
        let differ = two(300, |window| [1.5, 0.5 + 0.01 * f64::from(window % 3)]);
        let part = differ.steady_part(&fit(&differ), seconds());
        assert!(part < 0.02, "{part}");
    }

    /// In a long run whose second half draws a tenth more, each half has its own parts; where nothing changes
    /// there is one piece.
    #[test]
    fn long_runs_are_learned_again() {
        let windows = u32::try_from(FOLD_BLOCK * 90).unwrap();
        let noisy = |mut problem: Problem| {
            let noise = |window: u32| (f64::from(window * 37 % 13) - 6.0) / 20.0;
            problem.joules.iter_mut().zip(0..).for_each(|(joules, window)| *joules += noise(window));
            problem
        };
        let half = |window| if window < windows / 2 { [1.5, 0.5] } else { [1.65, 0.55] };
        let changes = noisy(two(windows, half));
        let pieces = over_time(&changes, &fit(&changes));
        assert_eq!(pieces.iter().map(|(until, _)| *until).collect::<Vec<_>>(), [450, 900]);
        assert!((pieces[0].1[0] - 1.5).abs() < 0.02 && (pieces[1].1[0] - 1.65).abs() < 0.02, "{pieces:?}");
        let steady = noisy(two(windows, |_| [1.5, 0.5]));
        assert_eq!(over_time(&steady, &fit(&steady)).len(), 1);
    }

    /// The median of the absolute value of a normal variable, by SciPy.
    #[test]
    fn median_of_errors() {
        assert!((MEDIAN_ABSOLUTE - Vectors::of("constants").number("median_absolute")).abs() < 5e-5);
    }
}
