//! Spearman's rank correlation. Leaves out other measures.

use crate::ranks::rank;
use crate::student;
use crate::{Method, Tested};

/// Spearman's ρ of pairs, with the two-sided p-value of Student's t for it, as SciPy's `spearmanr`. `None` of fewer than three pairs and
/// where a side is constant.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<Tested> {
    if x.len() != y.len() || x.len() < 3 || x.iter().chain(y).any(|value| value.is_nan()) {
        return None;
    }
    let (x, y) = (rank(x).ranks, rank(y).ranks);
    let mean = (x.len() as f64 + 1.0) / 2.0;
    let sum = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let size = (sum(&x, &x) * sum(&y, &y)).sqrt();
    if size <= 0.0 {
        return None;
    }
    let rho = (sum(&x, &y) / size).clamp(-1.0, 1.0);
    let freedom = x.len() as f64 - 2.0;
    let t = rho * (freedom / ((1.0 + rho) * (1.0 - rho))).sqrt();
    // Of n! orders two are as far apart as can be: no p is smaller, which Student's t does not know.
    let least = 2.0 / (1..=x.len()).map(|n| n as f64).product::<f64>();
    let p = if rho.abs() >= 1.0 { least } else { student::two_sided(t, freedom).max(least) };
    Some(Tested { statistic: rho, p, method: Method::Normal })
}
