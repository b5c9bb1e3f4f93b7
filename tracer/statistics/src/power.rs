//! How many runs a verdict needs, and how small a difference so many runs show. Leaves out the tests.

use crate::student;

/// Fewest pairs with which the signed-rank test can fall to `alpha` after a correction for `tests` tests: 2 · tests / 2ⁿ ≤ alpha.
pub fn least_pairs(alpha: f64, tests: usize) -> usize {
    let needed = 2.0 * tests.max(1) as f64 / alpha;
    (1..1_000).find(|&pairs| 2_f64.powi(pairs) >= needed).map_or(usize::MAX, |pairs| pairs as usize)
}

/// The difference that this many pairs show four times out of five, in the unit of `deviation`, the standard deviation of the pairs'
/// differences: (t(alpha / 2) + t(0.2)) · deviation / √(n · 3/π), with n − 1 degrees of freedom. 3/π is the efficiency of the signed-rank
/// test beside Student's for normal differences. `None` below two pairs.
pub fn detectable(deviation: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let freedom = pairs.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let far = student::exceeded_with(alpha / 2.0, freedom) + student::exceeded_with(0.2, freedom);
    Some(far * deviation / (pairs as f64 * 3.0 / std::f64::consts::PI).sqrt())
}
