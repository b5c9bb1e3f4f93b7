//! What is found by the validity checks that learned watts must pass (`profile::validity`): cross-validation, condition number, split half. Ways to weigh times are
//! compared by the same cross-validation (`CrossValidation`).
//!
//! Windows are put into blocks of half a second, so that what one window says about the next does not count as proof. Both the folds of
//! the cross-validation and the two halves are made of whole blocks. Leaves out the limits, and what becomes of watts that fail.

use crate::numerics::normal_equations::NormalEquations;
use crate::power_model::design::Design;
use crate::power_model::design::predicted;
use crate::power_model::fit::{FLOOR, Fit, PRIOR_SD, Shared};
use energy_trace_model::profile::validity::ValidityChecks;

const FOLDS: usize = 5;
const BLOCK_NS: u64 = 500_000_000;
/// Watts that differ by less than this part of themselves agree, however sure the halves are of theirs: the counter's edges and the chain of
/// functions are models, and no use of watts is finer.
const ALIKE: f64 = 0.03;

/// What a fit shows at each check.
pub(crate) fn checks_of(design: &Design, fit: &Fit, shared: Option<Shared>) -> ValidityChecks {
    let blocks = blocks_of(design);
    ValidityChecks {
        gain: gain(design, fit, &blocks),
        condition: condition(design, fit),
        apart: halves_apart(design, fit, &blocks, shared),
    }
}

/// The block of each window.
fn blocks_of(design: &Design) -> Vec<usize> {
    let mut begin = 0_u64;
    let mut next = |ns: &u64| {
        begin = begin.saturating_add(*ns);
        usize::try_from((begin - ns) / BLOCK_NS).unwrap_or(0)
    };
    design.ns.iter().map(&mut next).collect()
}

/// By how much weights fitted on the other folds predict a fold better than the mean does: the mean over blocks, in its standard errors.
fn gain(design: &Design, fit: &Fit, blocks: &[usize]) -> f64 {
    let by_mean = |window| design.joules[window] - fit.mean * design.row(window).iter().sum::<f64>();
    let by_mean: Vec<f64> = (0..design.len()).map(by_mean).collect();
    Gain::new(&by_mean, &residuals(design, fit, blocks), &fit.weights, blocks).in_errors()
}

/// By how much energies are predicted better, as a mean over blocks, and the standard error of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain {
    pub(crate) mean: f64,
    error: f64,
}

impl Gain {
    /// By how much the squares of `residuals` are less than those of `before`; each window counts by its trust.
    #[expect(clippy::cast_precision_loss, reason = "a count of blocks")]
    fn new(before: &[f64], residuals: &[f64], weight: &[f64], blocks: &[usize]) -> Self {
        let mut gains = vec![0.0; blocks.last().map_or(0, |last| last + 1)];
        for (((before, now), weight), block) in before.iter().zip(residuals).zip(weight).zip(blocks) {
            gains[*block] += weight * (before.powi(2) - now.powi(2));
        }
        let n = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / n;
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self { mean, error: (variance / n).sqrt() }
    }

    /// In standard errors.
    pub(crate) const fn in_errors(self) -> f64 {
        self.mean / self.error.max(f64::MIN_POSITIVE)
    }
}

/// How well one way to weigh times predicts parts of a run, so that others can be held against it.
pub(crate) struct CrossValidation<'a> {
    residuals: Vec<f64>,
    weight: &'a [f64],
    blocks: Vec<usize>,
}

impl<'a> CrossValidation<'a> {
    /// Others are designs of the same windows.
    pub(crate) fn new(design: &Design, fit: &'a Fit) -> Self {
        let blocks = blocks_of(design);
        Self { residuals: residuals(design, fit, &blocks), weight: &fit.weights, blocks }
    }

    /// By how much another one predicts better.
    pub(crate) fn gain(&self, design: &Design, fit: &Fit) -> Gain {
        Gain::new(&self.residuals, &residuals(design, fit, &self.blocks), self.weight, &self.blocks)
    }
}

/// How far each window's energy is from what watts predict that were fitted to the other folds.
fn residuals(design: &Design, fit: &Fit, blocks: &[usize]) -> Vec<f64> {
    let mut residuals = design.joules.clone();
    for fold in 0..FOLDS {
        let watts = fit
            .normal(design, |window| blocks[window] % FOLDS != fold)
            .coordinate_descent(fit.mean, FLOOR * fit.mean);
        let watts = watts.as_slice();
        for window in (0..design.len()).filter(|&window| blocks[window] % FOLDS == fold) {
            residuals[window] -= predicted(design.row(window), watts);
        }
    }
    residuals
}

/// The condition number of the times as the fit uses them, without what is believed beforehand.
fn condition(design: &Design, fit: &Fit) -> f64 {
    let mut normal = NormalEquations::new(design.columns);
    (0..design.len()).for_each(|window| fit.add_row(design, window, &mut normal));
    normal.condition()
}

/// How far the watts of the odd and of the even blocks are apart in their own standard deviations: root mean square over columns, by energy.
///
/// Watts that several classes share are a mean over those that happened to run in a half, which says nothing about whether watts last.
fn halves_apart(design: &Design, fit: &Fit, blocks: &[usize], shared: Option<Shared>) -> f64 {
    let n = design.columns;
    let half = |parity: usize| {
        let normal = fit.normal(design, |window| blocks[window] % 2 == parity);
        let inverse = normal.factor()?.inverse();
        Some((normal.coordinate_descent(fit.mean, FLOOR * fit.mean), inverse))
    };
    let (Some((even, of_even)), Some((odd, of_odd))) = (half(0), half(1)) else { return f64::INFINITY };
    let (mut squares, mut whole) = (0.0, 0.0);
    for c in 0..n {
        let seconds: f64 = design.seconds.iter().skip(c).step_by(n).sum();
        let mixture = shared.filter(|shared| shared.column == c).map_or(0.0, |shared| {
            // No class runs in both: Σ (2p)² (σ_belief)².
            4.0 * shared.herfindahl * (PRIOR_SD * fit.mean).powi(2)
        });
        let variance = of_even[(c, c)] + of_odd[(c, c)] + (ALIKE * fit.watts[c]).powi(2) + mixture;
        squares += seconds * fit.watts[c] * (even[c] - odd[c]).powi(2) / variance;
        whole += seconds * fit.watts[c];
    }
    (squares / whole).sqrt()
}
