//! Distributions that the worlds draw from. Leaves out the generator itself (`tests/support/random.rs`).

use energy_trace_tests::random::Random;

/// A standard normal value (Box and Muller, 1958).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// A log-normal value with this mean; `sigma` is the standard deviation of its logarithm.
pub fn log_normal(random: &mut Random, mean: f64, sigma: f64) -> f64 {
    mean * (sigma * normal(random) - sigma * sigma / 2.0).exp()
}

/// Evenly from `low..high`.
pub fn even(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * random.unit()
}

/// Exponentially distributed with this mean.
pub fn exponential(random: &mut Random, mean: f64) -> f64 {
    -(1.0 - random.unit()).ln() * mean
}

/// A number by weights.
pub fn pick(random: &mut Random, weights: &[f64]) -> usize {
    let mut left = random.unit() * weights.iter().sum::<f64>();
    weights
        .iter()
        .position(|weight| {
            left -= weight;
            left < 0.0
        })
        .unwrap_or(weights.len() - 1)
}
