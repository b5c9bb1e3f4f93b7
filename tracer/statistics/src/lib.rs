//! Statistics of repeated runs: whether two programs differ, by how much, and how sure that is.
//!
//! ```
//! assert_eq!(energy_trace_statistics::location::median(&[3.0, 1.0, 2.0]), 2.0);
//! ```
//!
//! The unit is a run: one number for each run, such as its joules; `stretches` alone cuts a run into parts. Pure
//! functions of slices; no files, no clock, no Linux. Each is held against SciPy
//! (`tests/fixtures/statistics`). Leaves out what the numbers are (`report`, `study`) and how sure one run is of itself
//! (`attribution`).

pub mod bootstrap;
pub mod comparison;
pub mod corrections;
pub mod correlation;
pub mod effect;
pub mod location;
pub mod power;
pub mod rank_sum;
mod ranks;
pub mod regression;
pub mod signed_rank;
pub mod stretches;
pub mod student;
#[cfg(test)]
mod tests;

/// How a p-value was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the exact distribution.
    Exact,
    /// From a normal distribution, corrected for ties and continuity.
    Normal,
}

/// The answer of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The test's statistic.
    pub statistic: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// How the p-value was had.
    pub method: Method,
}

/// Two-sided p-value of a standard normal value.
fn two_sided(z: f64) -> f64 {
    statrs::function::erf::erfc(z.abs() / std::f64::consts::SQRT_2).min(1.0)
}
