//! Energy that is split by weights, window by window, and what errors of the weights do to it.
//!
//! ```text
//! q_kc = w_c x_kc / Σ w x_k,   E_c = Σ_k y_k q_kc,   ∂E_c / ∂w_j = Σ_k y_k q_kc (δ_cj − q_kj) / w_j
//! ```
//!
//! Weights are watts, or joules a launch; x seconds, or launches; y the window's energy. A recipient may have
//! several weights: that of number c has c modulo the number of recipients. Leaves out where weights and
//! their errors come from.

use nalgebra::DMatrix;

/// What a window holds of some weights, by number.
pub type Row = [(usize, f64)];

/// What a window is expected to hold.
pub fn predicted(row: &Row, weights: &[f64]) -> f64 {
    let of = |&(number, x): &(usize, f64)| x * weights.get(number).copied().unwrap_or(0.0);
    row.iter().map(of).sum()
}

/// The part of its energy that each weight of a window gets.
pub fn parts(row: &Row, weights: &[f64]) -> Vec<(usize, f64)> {
    let sum = predicted(row, weights);
    let part = |entry: &(usize, f64)| {
        let own = predicted(std::slice::from_ref(entry), weights);
        (entry.0, if sum > 0.0 { own / sum } else { 0.0 })
    };
    row.iter().map(part).collect()
}

/// Energy of each of so many recipients. A window is its row and its energy.
pub fn energies<'a>(
    windows: impl Iterator<Item = (&'a Row, f64)>,
    weights: &[f64],
    recipients: usize,
) -> Vec<f64> {
    let mut energies = vec![0.0; recipients];
    for (row, joules) in windows {
        parts(row, weights).into_iter().for_each(|(c, q)| energies[c % recipients] += joules * q);
    }
    energies
}

/// ∂E / ∂w, weights × recipients, and the covariance of energies if each weight strays by its own size, in
/// each window for itself: Σ_k y_k² q_kc q_kd (δ_cd − q_kc − q_kd + Σ_j q_kj²).
pub fn slopes<'a>(
    windows: impl Iterator<Item = (&'a Row, f64)>,
    weights: &[f64],
    recipients: usize,
) -> (DMatrix<f64>, DMatrix<f64>) {
    let mut slope = DMatrix::zeros(weights.len(), recipients);
    let mut own = DMatrix::zeros(recipients, recipients);
    for (row, joules) in windows {
        let parts = parts(row, weights);
        let squares: f64 = parts.iter().map(|(_, q)| q * q).sum();
        // Weight, its recipient, its size, and its part.
        let parts: Vec<(usize, usize, f64, f64)> =
            parts.into_iter().map(|(c, q)| (c, c % recipients, weights[c], q)).collect();
        for &(c, of_c, _, q) in &parts {
            let by_weight = &mut slope.as_mut_slice()[of_c * weights.len()..][..weights.len()];
            let by_chance = &mut own.as_mut_slice()[of_c * recipients..][..recipients];
            let (joules_q, squared_q) = (joules * q, joules * joules * q);
            for &(d, of_d, weight, p) in &parts {
                let same = f64::from(u8::from(c == d));
                by_weight[d] += joules_q * (same - p) / weight;
                by_chance[of_d] += squared_q * p * (same - q - p + squares);
            }
        }
    }
    (slope, own)
}

#[cfg(test)]
mod tests {
    use super::{Row, energies, parts, predicted, slopes};
    use crate::tests::vectors::near;

    const ROWS: [(&Row, f64); 3] =
        [(&[(0, 1.0), (1, 3.0)], 8.0), (&[(1, 2.0), (2, 1.0)], 5.0), (&[(0, 0.5), (1, 1.0), (2, 4.0)], -2.0)];

    /// 1 · 2 + 3 · 4, of which the second weight has six sevenths; weights that there are not count nothing,
    /// and where nothing ran nobody gets anything.
    #[test]
    fn by_hand() {
        let (row, weights) = (ROWS[0].0, [2.0, 4.0]);
        assert_eq!(predicted(row, &weights), 14.0);
        assert_eq!(predicted(row, &[2.0]), 2.0);
        assert_eq!(parts(row, &weights), [(0, 2.0 / 14.0), (1, 12.0 / 14.0)]);
        assert_eq!(parts(&[(0, 0.0)], &weights), [(0, 0.0)]);
        let nothing: &Row = &[(0, 0.0), (1, 0.0)];
        assert_eq!(energies([(row, 8.0), (nothing, 5.0)].into_iter(), &[1.0, 1.0], 2), [2.0, 6.0]);
        assert_eq!(energies(std::iter::once((row, 8.0)), &[1.0, 1.0], 1), [8.0]);
    }

    /// The derivative by differences, each weight a recipient's alone, and two of three one recipient's.
    #[test]
    fn slopes_are_derivatives() {
        let weights = [2.0, 0.7, 5.0];
        for recipients in [3, 2] {
            let (slope, _) = slopes(ROWS.into_iter(), &weights, recipients);
            for j in 0..3 {
                let by = |step: f64| {
                    let mut other = weights;
                    other[j] += step;
                    energies(ROWS.into_iter(), &other, recipients)
                };
                let (up, down) = (by(1e-5), by(-1e-5));
                let difference: Vec<f64> = up.iter().zip(&down).map(|(u, d)| (u - d) / 2e-5).collect();
                near(slope.row(j).transpose().as_slice(), &difference, 1e-7);
            }
        }
    }

    /// What each weight strays by goes through the window's own derivative: Σ_k (∂E_k w) (∂E_k w)ᵀ. All
    /// together have none.
    #[test]
    fn chance_goes_through_the_derivative() {
        let weights = [2.0, 0.7, 5.0];
        let (_, own) = slopes(ROWS.into_iter(), &weights, 3);
        let mut should = nalgebra::DMatrix::zeros(3, 3);
        for window in ROWS {
            let (mut slope, _) = slopes(std::iter::once(window), &weights, 3);
            slope.row_iter_mut().zip(weights).for_each(|(mut row, weight)| row *= weight);
            should += slope.transpose() * slope;
        }
        near(own.as_slice(), should.as_slice(), 1e-9);
        assert!(own.sum().abs() < 1e-9);
    }
}
