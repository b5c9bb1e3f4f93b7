//! Powers of classes, fitted to windows by reweighted least squares.
//!
//! Leaves out what the windows are (`design`), and whether the result may be used (`validity`).

use super::design::{Design, predicted};
use super::stationary_windows::StationaryWindows;
use crate::between_samples::switching_chain::Chains;
use crate::numerics::normal_equations::NormalEquations;

/// What is believed of a class's watts before: standard deviation in parts of the mean.
pub(crate) const PRIOR_SD: f64 = 0.6;
/// No class is taken to draw less than this part of the mean. (With a twentieth, much work of others that draws next to nothing had 3 %
/// of the target's energy.)
pub(crate) const FLOOR: f64 = 0.01;
/// A counter that moves each millisecond is read 0.4 ms off (standard deviation of the difference of two even distributions).
const EDGE_SECONDS: f64 = 4e-4;
/// Rounds of reweighting.
const ROUNDS: usize = 4;
/// From how many standard deviations on a window counts less (Huber: Robust statistics, 1981).
const HUBER: f64 = 2.5;
/// The median of the square of a standard normal variable.
pub(crate) const MEDIAN_SQUARE: f64 = 0.4549;

/// Watts, and how windows stray from them.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) mean: f64,
    pub(crate) watts: Vec<f64>,
    /// Variance of a window's energy beside that of its times (J²).
    pub(crate) noise: f64,
    /// What each window counts for: 1 / variance, less where it is far off.
    pub(crate) weights: Vec<f64>,
    pub(crate) likelihood: f64,
    /// What windows say beyond their expected times.
    pub(crate) stationary: Option<StationaryWindows>,
}

/// The column of the classes that are too small for watts of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shared {
    pub(crate) column: usize,
    /// Sum of the squares of their parts of its time (Herfindahl's index): 1 for one class, 1/n for n of the same size.
    pub(crate) herfindahl: f64,
}

impl Fit {
    pub(crate) fn new(design: &Design, chains: &Chains) -> Option<Self> {
        let (joules, seconds) = (design.joules.iter().sum::<f64>(), design.seconds.iter().sum::<f64>());
        let mean = Some(joules / seconds).filter(|mean| mean.is_finite() && *mean > 0.0)?;
        let edge = mean * seconds / design.len() as f64 / (0.02 / EDGE_SECONDS);
        let floor = (edge * edge).max(1e-12);
        let mut fit = Self {
            mean,
            watts: vec![mean; design.columns],
            noise: floor,
            weights: vec![],
            likelihood: 0.0,
            stationary: None,
        };
        for _ in 0..ROUNDS {
            let variances = design.variances(&fit.watts, chains);
            fit.weigh(design, &variances, floor);
            fit.watts = fit.normal(design, |_| true).coordinate_descent(mean, FLOOR * mean).data.into();
        }
        let variances = design.variances(&fit.watts, chains);
        fit.weigh(design, &variances, floor);
        Some(fit)
    }

    /// What is observed and believed, from the windows that are wanted.
    pub(crate) fn normal(&self, design: &Design, wanted: impl Fn(usize) -> bool) -> NormalEquations {
        let mut normal = NormalEquations::new(design.columns);
        for window in (0..design.len()).filter(|&window| wanted(window)) {
            self.add_row(design, window, &mut normal);
        }
        normal.add_prior(self.mean, 1.0 / (PRIOR_SD * self.mean).powi(2));
        normal
    }

    /// Adds what one window says.
    pub(crate) fn add_row(&self, design: &Design, window: usize, normal: &mut NormalEquations) {
        let joules = design.joules[window];
        if !self
            .stationary
            .as_ref()
            .is_some_and(|stationary| stationary.add_row(window, design.columns, joules, normal))
        {
            normal.add_dense_row(design.row(window), joules, self.weights[window]);
        }
    }

    /// Finds the noise, what each window counts for, and how likely all of it is.
    fn weigh(&mut self, design: &Design, variances: &[f64], floor: f64) {
        let errors: Vec<f64> =
            (0..design.len()).map(|k| design.joules[k] - predicted(design.row(k), &self.watts)).collect();
        let mut beyond: Vec<f64> = errors.iter().zip(variances).map(|(e, v)| e * e - v).collect();
        beyond.sort_by(f64::total_cmp);
        let median = beyond.get(beyond.len() / 2).copied().unwrap_or(0.0);
        self.noise = (median / MEDIAN_SQUARE).max(floor);
        self.likelihood = 0.0;
        self.weights = errors
            .iter()
            .zip(variances)
            .map(|(error, variance)| {
                let all = variance + self.noise;
                let z = error.abs() / all.sqrt();
                let cost = if z > HUBER { HUBER * (2.0 * z - HUBER) } else { z * z };
                self.likelihood -= 0.5 * (cost + all.ln());
                (HUBER / z).min(1.0) / all
            })
            .collect();
    }
}
