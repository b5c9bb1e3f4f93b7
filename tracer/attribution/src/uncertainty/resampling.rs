//! A moving-block bootstrap of weighted normal equations.
//!
//! Blocks of neighbouring windows are drawn with replacement, 500 times, and the unknowns solved for again (Künsch: The jackknife
//! and the bootstrap for general stationary observations, Annals of Statistics 1989). The random numbers are the same in every run.

use crate::numerics::normal_equations::NormalEquations;

const RESAMPLES: usize = 500;
/// Blocks begin at multiples of a fourth of their length.
const STEPS: usize = 4;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

pub(crate) fn add_square(covariance: &mut [f64], one: &[f64], other: &[f64], factor: f64) {
    let n = one.len();
    for i in 0..n {
        for j in 0..n {
            covariance[i * n + j] += factor * (one[i] - other[i]) * (one[j] - other[j]);
        }
    }
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
            drawn.push(factor.solve(&sum.target).into_iter().map(|watts| watts.max(floor)).collect());
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
