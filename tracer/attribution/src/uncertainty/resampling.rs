//! How sure the watts of a model are: a moving-block bootstrap, and what the data leave open.
//!
//! Blocks of one second of neighbouring windows are drawn with replacement, 500 times, and the watts fitted again (Künsch: The jackknife
//! and the bootstrap for general stationary observations, Annals of Statistics 1989). The random numbers are the same in every run. To
//! the spread that this shows comes that windows are not known to be steady (`stationary_windows`), and what no resampling shows: how far the prior of mean watts has pulled (`A⁻¹ Λ A⁻¹`), and the spread
//! over the other rates of forgetting that samples and energy allow.

use crate::numerics::normal_equations::NormalEquations;
use crate::power_model::design::Design;
use crate::power_model::fit::{FLOOR, Fit, PRIOR_SD};
use crate::power_model::learn::Model;
use nalgebra::DMatrix;

const RESAMPLES: usize = 500;
const BLOCK_NS: u64 = 1_000_000_000;
/// Blocks begin at multiples of a fourth of their length.
const STEPS: usize = 4;
/// In a long run blocks are longer, so that there are not more steps than this.
const MOST_STEPS: u64 = 512;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// The covariance of a model's watts, row by row (W²).
pub(crate) fn covariance(model: &Model) -> Vec<f64> {
    let (design, fit) = (&model.design, &model.fit);
    let n = design.columns;
    let mut covariance = vec![0.0; n * n];
    let all = fit.normal(design, |_| true);
    if let Some(factor) = all.factor() {
        let (inverse, precision) = (factor.inverse(), 1.0 / (PRIOR_SD * fit.mean).powi(2));
        for i in 0..n {
            for j in 0..n {
                let pulled = inverse.column(i).dot(&inverse.column(j));
                covariance[i * n + j] += precision * pulled;
            }
        }
    }
    let steps = steps_of(design, fit);
    if steps.len() > STEPS {
        let mut belief = NormalEquations::new(n);
        belief.add_prior(fit.mean, 1.0 / (PRIOR_SD * fit.mean).powi(2));
        let drawn = resampled(&steps, &belief, FLOOR * fit.mean);
        let centre: Vec<f64> =
            (0..n).map(|c| drawn.iter().map(|watts| watts[c]).sum::<f64>() / drawn.len() as f64).collect();
        let mut spread = vec![0.0; n * n];
        for watts in &drawn {
            add_square(&mut spread, watts, &centre, 1.0 / drawn.len() as f64);
        }
        let missing = fit.stationary.as_ref().map(|stationary| stationary.missing.as_slice());
        let spread = missing.and_then(|missing| with_missing(&spread, &all, missing)).unwrap_or(spread);
        covariance.iter_mut().zip(spread).for_each(|(sum, spread)| *sum += spread);
    }
    let probable: f64 = 1.0 + model.others.iter().map(|(probability, _)| probability).sum::<f64>();
    for (probability, watts) in &model.others {
        add_square(&mut covariance, watts, &fit.watts, probability / probable);
    }
    covariance
}

/// A spread S by equations A that took it for known which windows were steady: with what that leaves out (M), (A − M)⁻¹ A S A (A − M)⁻¹
/// (Louis: Finding the observed information matrix when using the EM algorithm, 1982). `None` where A − M says nothing any more.
fn with_missing(spread: &[f64], all: &NormalEquations, missing: &[f64]) -> Option<Vec<f64>> {
    let mut seen = all.clone();
    seen.gram.iter_mut().zip(missing).for_each(|(gram, missing)| *gram -= missing);
    let n = all.target.len();
    let scale = seen.factor()?.inverse() * &all.gram;
    let spread = DMatrix::from_row_slice(n, n, spread);
    Some((&scale * spread * scale.transpose()).data.into())
}

pub(crate) fn add_square(covariance: &mut [f64], one: &[f64], other: &[f64], factor: f64) {
    let n = one.len();
    for i in 0..n {
        for j in 0..n {
            covariance[i * n + j] += factor * (one[i] - other[i]) * (one[j] - other[j]);
        }
    }
}

/// The normal equations of each step, without the prior.
fn steps_of(design: &Design, fit: &Fit) -> Vec<NormalEquations> {
    let whole = design.ns.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let step_ns = (BLOCK_NS / STEPS as u64).max(whole / MOST_STEPS);
    let mut steps = vec![NormalEquations::new(design.columns)];
    let mut filled = 0_u64;
    for window in 0..design.len() {
        if filled >= step_ns {
            steps.push(NormalEquations::new(design.columns));
            filled = 0;
        }
        if let Some(step) = steps.last_mut() {
            fit.add_row(design, window, step);
        }
        filled = filled.saturating_add(design.ns[window]);
    }
    steps
}

pub(crate) fn resampled(steps: &[NormalEquations], belief: &NormalEquations, floor: f64) -> Vec<Vec<f64>> {
    let blocks: Vec<NormalEquations> = steps
        .windows(STEPS)
        .map(|of_block| {
            let mut block = of_block[0].clone();
            of_block[1..].iter().for_each(|step| block.add(step, 1.0));
            block
        })
        .collect();
    let draws = steps.len().div_ceil(STEPS);
    let scale = steps.len() as f64 / (draws * STEPS) as f64;
    let mut random = Xorshift::new();
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sum = belief.clone();
        for _ in 0..draws {
            sum.add(&blocks[random.below(blocks.len())], scale);
        }
        if let Some(factor) = sum.factor() {
            drawn.push(factor.solve(&sum.target).iter().map(|watts| watts.max(floor)).collect());
        }
    }
    drawn
}

/// Xorshift64 (Marsaglia: Xorshift RNGs, Journal of Statistical Software 2003).
pub(crate) struct Xorshift(u64);

impl Xorshift {
    /// The same in every run.
    pub(crate) const fn new() -> Self {
        Self(SEED)
    }

    /// From `0..below`; 0 where that is empty.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{NormalEquations, with_missing};

    /// What is missing makes watts less sure: half of an unknown's observations, four times its variance; nothing, no more.
    #[test]
    fn missing_information_widens() {
        let mut all = NormalEquations::new(2);
        all.add_dense_row(&[2.0, 0.0], 1.0, 1.0);
        all.add_dense_row(&[0.0, 1.0], 1.0, 1.0);
        let spread = [0.25, 0.1, 0.1, 1.0];
        let near = |missing: [f64; 4], expected: [f64; 4]| {
            let found = with_missing(&spread, &all, &missing).unwrap();
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        near([0.0; 4], spread);
        near([2.0, 0.0, 0.0, 0.0], [1.0, 0.2, 0.2, 1.0]);
        assert!(with_missing(&spread, &all, &[5.0, 0.0, 0.0, 0.0]).is_none());
    }
}
