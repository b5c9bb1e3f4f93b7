//! Student's t. Leaves out tests that use it.

use statrs::function::beta::checked_beta_reg;

/// Chance that |t| is at least this large, with these degrees of freedom; NaN where there are none.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    // The regularised incomplete beta function (Abramowitz and Stegun, 26.5.27).
    checked_beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)).unwrap_or(f64::NAN)
}

/// The value that t exceeds with this probability, below a half; NaN for what is no probability or no degrees of freedom.
pub fn exceeded_with(above: f64, freedom: f64) -> f64 {
    let sought = 2.0 * above;
    if !(sought > 0.0 && sought <= 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > sought && high < 1e300 {
        (low, high) = (high, high * 2.0);
    }
    // Halving ends where two neighbouring numbers are left.
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > sought { low = middle } else { high = middle }
    }
    high
}
