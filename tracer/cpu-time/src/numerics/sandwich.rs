//! How sure a regression is, where blocks of neighbouring windows stray together.
//!
//! ```text
//! C  = (XᵀWX + K⁻¹)⁻¹                                 the posterior covariance of the unknowns
//! B  = Σ_b S_b S_bᵀ,   S_b = Σ_{k in b} W_k r_k x_k   what blocks show together
//! C* = s C s,          s_c² = max(1, (C B C)_cc / (C XᵀWX C)_cc)
//! ```
//!
//! A clustered sandwich (Liang, Zeger: Longitudinal data analysis using generalized linear models, Biometrika
//! 1986). Leaves out what a block is, and what the unknowns are.

use nalgebra::{DMatrix, DVector};

/// Fewer blocks than this show nothing together.
const FEWEST_BLOCKS: usize = 4;

/// C* of a posterior covariance, of what is observed (XᵀWX), and of the blocks' scores (S_b, as columns).
pub fn widened(posterior: DMatrix<f64>, observed: &DMatrix<f64>, scores: &DMatrix<f64>) -> DMatrix<f64> {
    if scores.ncols() < FEWEST_BLOCKS {
        return posterior;
    }
    let shown = &posterior * (scores * scores.transpose()) * &posterior;
    let expected = &posterior * observed * &posterior;
    let scale = |c: usize| {
        let ratio = shown[(c, c)] / expected[(c, c)].max(f64::MIN_POSITIVE);
        if ratio.is_finite() { ratio.max(1.0).sqrt() } else { 1.0 }
    };
    let scale = DMatrix::from_diagonal(&DVector::from_fn(posterior.nrows(), |c, _| scale(c)));
    &scale * posterior * &scale
}

#[cfg(test)]
mod tests {
    use super::widened;
    use nalgebra::DMatrix;

    /// Of two unknowns, each observed with a precision of 3 beside one of 1, the first one's blocks stray by
    /// four times what they should: its standard deviation doubles. The second one's stray by less, which
    /// narrows nothing; three blocks show nothing.
    #[test]
    fn blocks_that_stray_together() {
        let posterior = DMatrix::from_row_slice(2, 2, &[0.25, 0.0, 0.0, 0.25]);
        let observed = DMatrix::from_row_slice(2, 2, &[3.0, 0.0, 0.0, 3.0]);
        let root = 3.0_f64.sqrt();
        let scores = DMatrix::from_row_slice(2, 4, &[root, root, -root, -root, 0.1, -0.1, 0.1, -0.1]);
        let found = widened(posterior.clone(), &observed, &scores);
        assert!((found[(0, 0)] - 1.0).abs() < 1e-12 && (found[(1, 1)] - 0.25).abs() < 1e-12, "{found}");
        assert_eq!(widened(posterior.clone(), &observed, &scores.columns(0, 3).into_owned()), posterior);
    }

    /// What nothing is observed of keeps what is believed.
    #[test]
    fn nothing_observed() {
        let posterior = DMatrix::identity(1, 1);
        let found = widened(posterior.clone(), &DMatrix::zeros(1, 1), &DMatrix::zeros(1, 5));
        assert_eq!(found, posterior);
    }
}
