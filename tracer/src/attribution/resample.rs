//! How sure the watts of a model are: a moving-block bootstrap, and what the data leave open.
//!
//! Blocks of one second of neighbouring windows are drawn with replacement, 500 times, and the watts fitted again (Künsch: The jackknife
//! and the bootstrap for general stationary observations, Annals of Statistics 1989). The random numbers are the same in every run. To
//! the spread that this shows comes what no resampling shows: how far the belief in mean watts has pulled (`A⁻¹ Λ A⁻¹`), and the spread
//! over the other rates of forgetting that samples and energy allow.

use super::design::Design;
use super::intensity::{BELIEF, FLOOR, Fit, Model};
use super::linear::Normal;

const RESAMPLES: usize = 500;
const BLOCK_NS: u64 = 1_000_000_000;
/// Blocks begin at multiples of a fourth of their length.
const STEPS: usize = 4;
/// In a long run blocks are longer, so that there are not more steps than this.
const MOST_STEPS: u64 = 512;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// The covariance of a model's watts, row by row (W²).
pub(super) fn covariance(model: &Model) -> Vec<f64> {
    let (design, fit) = (&model.design, &model.fit);
    let n = design.columns;
    let mut covariance = vec![0.0; n * n];
    let mut all = fit.normal(design, |_| true);
    if let Some(factor) = all.factor() {
        let (inverse, precision) = (factor.inverse(), 1.0 / (BELIEF * fit.mean).powi(2));
        for i in 0..n {
            for j in 0..n {
                let pulled: f64 = (0..n).map(|k| inverse[i * n + k] * inverse[k * n + j]).sum();
                covariance[i * n + j] += precision * pulled;
            }
        }
    }
    let steps = steps_of(design, fit);
    if steps.len() > STEPS {
        all = Normal::new(n);
        all.believe(fit.mean, 1.0 / (BELIEF * fit.mean).powi(2));
        let drawn = resampled(&steps, &all, FLOOR * fit.mean);
        let centre: Vec<f64> =
            (0..n).map(|c| drawn.iter().map(|watts| watts[c]).sum::<f64>() / drawn.len() as f64).collect();
        for watts in &drawn {
            add_square(&mut covariance, watts, &centre, 1.0 / drawn.len() as f64);
        }
    }
    let probable: f64 = 1.0 + model.others.iter().map(|(probability, _)| probability).sum::<f64>();
    for (probability, watts) in &model.others {
        add_square(&mut covariance, watts, &fit.watts, probability / probable);
    }
    covariance
}

pub(super) fn add_square(covariance: &mut [f64], one: &[f64], other: &[f64], factor: f64) {
    let n = one.len();
    for i in 0..n {
        for j in 0..n {
            covariance[i * n + j] += factor * (one[i] - other[i]) * (one[j] - other[j]);
        }
    }
}

/// The normal equations of each step, without belief.
fn steps_of(design: &Design, fit: &Fit) -> Vec<Normal> {
    let whole = design.ns.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let step_ns = (BLOCK_NS / STEPS as u64).max(whole / MOST_STEPS);
    let mut steps = vec![Normal::new(design.columns)];
    let mut filled = 0_u64;
    for window in 0..design.len() {
        if filled >= step_ns {
            steps.push(Normal::new(design.columns));
            filled = 0;
        }
        if let Some(step) = steps.last_mut() {
            fit.observe(design, window, step);
        }
        filled = filled.saturating_add(design.ns[window]);
    }
    steps
}

pub(super) fn resampled(steps: &[Normal], belief: &Normal, floor: f64) -> Vec<Vec<f64>> {
    let blocks: Vec<Normal> = steps
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
            drawn.push(factor.solve(&sum.target).into_iter().map(|watts| watts.max(floor)).collect());
        }
    }
    drawn
}

/// Xorshift64 (Marsaglia: Xorshift RNGs, Journal of Statistical Software 2003).
pub(super) struct Xorshift(u64);

impl Xorshift {
    /// The same in every run.
    pub(super) const fn new() -> Self {
        Self(SEED)
    }

    /// From `0..below`; 0 where that is empty.
    pub(super) fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap_or(0)
    }
}
