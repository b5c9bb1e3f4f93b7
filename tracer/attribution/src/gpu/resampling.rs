//! A moving-block bootstrap of weighted normal equations.
//!
//! Blocks of neighbouring windows are drawn with replacement, 500 times, and the unknowns solved for again (Künsch: The jackknife
//! and the bootstrap for general stationary observations, Annals of Statistics 1989). The random numbers are the same in every run.

use crate::numerics::normal_equations::NormalEquations;

const RESAMPLES: usize = 500;
/// Blocks begin at multiples of a fourth of their length.
const STEPS: usize = 4;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

pub(super) fn add_square(covariance: &mut [f64], one: &[f64], other: &[f64], factor: f64) {
    let n = one.len();
    for i in 0..n {
        for j in 0..n {
            covariance[i * n + j] += factor * (one[i] - other[i]) * (one[j] - other[j]);
        }
    }
}

pub(super) fn resampled(steps: &[NormalEquations], belief: &NormalEquations, floor: f64) -> Vec<Vec<f64>> {
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

#[cfg(test)]
mod tests {
    use super::{NormalEquations, Xorshift, add_square, resampled};

    /// Steps that each say what one unknown is.
    fn steps(values: &[f64]) -> Vec<NormalEquations> {
        let step = |value: &f64| {
            let mut step = NormalEquations::new(1);
            step.add_dense_row(&[1.0], *value, 1.0);
            step
        };
        values.iter().map(step).collect()
    }

    /// Of steps that are drawn in blocks of four, the mean's variance is that of blocks' means over the number of blocks, and its mean is theirs.
    #[test]
    fn spread_of_a_mean() {
        let values: Vec<f64> = (0..80_u32).map(|i| 5.0 + f64::from(i * i % 17)).collect();
        let belief = NormalEquations::new(1);
        let drawn: Vec<f64> = resampled(&steps(&values), &belief, 0.0).into_iter().map(|of| of[0]).collect();
        assert_eq!(drawn.len(), 500);
        let spread = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let blocks: Vec<f64> = values.windows(4).map(|block| block.iter().sum::<f64>() / 4.0).collect();
        let ((mean, variance), (expected, of_blocks)) = (spread(&drawn), spread(&blocks));
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} instead of {expected}");
        assert!(
            (variance / (of_blocks / 20.0) - 1.0).abs() < 0.2,
            "{variance} instead of {}",
            of_blocks / 20.0
        );
    }

    /// What is drawn weighs as much as all steps do, beside what is believed: ten steps of 2 and ten of belief in 0 are 1. Nothing is below the floor.
    #[test]
    fn drawn_steps_weigh_as_all() {
        let mut belief = NormalEquations::new(1);
        belief.add_prior(0.0, 10.0);
        let of = |value: f64, floor| resampled(&steps(&[value; 10]), &belief, floor);
        assert!(of(2.0, 0.0).iter().all(|drawn| (drawn[0] - 1.0).abs() < 1e-12));
        assert!(of(-2.0, 0.5).iter().all(|drawn| drawn[0] == 0.5));
    }

    /// The first of Marsaglia's numbers for this seed (Python's integers), and what has no room.
    #[test]
    fn numbers_are_always_the_same() {
        let mut random = Xorshift::new();
        let found: Vec<usize> = (0..6).map(|_| random.below(1_000)).collect();
        assert_eq!(found, [951, 408, 135, 574, 710, 857]);
        assert_eq!(random.below(0), 0);
    }

    /// ½ (a − b)(a − b)ᵀ of (2, 4), by hand.
    #[test]
    fn squares_are_added() {
        let mut covariance = vec![1.0; 4];
        add_square(&mut covariance, &[3.0, 5.0], &[1.0, 1.0], 0.5);
        assert_eq!(covariance, [3.0, 5.0, 5.0, 9.0]);
    }
}
