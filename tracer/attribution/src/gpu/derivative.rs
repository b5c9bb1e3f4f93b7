//! Energy that is split by weights, window by window, and what errors of the weights do to it.
//!
//! ```text
//! q_kc = w_c x_kc / Σ w x_k,    E_c = Σ_k D_k q_kc,    ∂E_c / ∂ ln w_j = Σ_k D_k q_kc (δ_cj − q_kj)
//! ```
//!
//! Weights are joules a launch or watts, and `x` launches or seconds. Leaves out where weights and their errors come from.

/// What a window's energy is split into.
fn parts<'a>(row: &'a [f64], weights: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let sum: f64 = row.iter().zip(weights).map(|(x, weight)| x * weight).sum();
    row.iter().zip(weights).map(move |(x, weight)| if sum > 0.0 { x * weight / sum } else { 0.0 })
}

/// Energy of each column. A window is its row and its energy.
pub(super) fn energies<'a>(windows: impl Iterator<Item = (&'a [f64], f64)>, weights: &[f64]) -> Vec<f64> {
    let mut energies = vec![0.0; weights.len()];
    for (row, joules) in windows {
        energies.iter_mut().zip(parts(row, weights)).for_each(|(sum, part)| *sum += joules * part);
    }
    energies
}

/// Relative covariance of the columns' energies, row by row, by that of the weights. `held` is what weights' errors are relative to: the
/// weights, away from zero.
pub(super) fn relative<'a>(
    windows: impl Iterator<Item = (&'a [f64], f64)>,
    weights: &[f64],
    held: &[f64],
    energies: &[f64],
    covariance: &[f64],
) -> Vec<f64> {
    let n = weights.len();
    let mut slope = vec![0.0; n * n];
    for (row, joules) in windows {
        let q: Vec<f64> = parts(row, weights).collect();
        for c in (0..n).filter(|&c| q[c] > 0.0) {
            for j in 0..n {
                let own = f64::from(u8::from(c == j));
                slope[c * n + j] += joules * q[c] * (own - q[j]);
            }
        }
    }
    let scaled = |c: usize, j: usize| slope[c * n + j] / energies[c].abs().max(1e-9) / held[j];
    let mut half = vec![0.0; n * n];
    for c in 0..n {
        for k in 0..n {
            half[c * n + k] = (0..n).map(|j| scaled(c, j) * covariance[j * n + k]).sum();
        }
    }
    let mut relative = vec![0.0; n * n];
    for c in 0..n {
        for d in 0..n {
            relative[c * n + d] = (0..n).map(|k| half[c * n + k] * scaled(d, k)).sum();
        }
    }
    relative
}

#[cfg(test)]
mod tests {
    use super::{energies, relative};
    use crate::tests::vectors::{Vectors, near};

    /// The split, and its derivative by differences between a covariance of weights and one of energies (NumPy). The sum has no doubt.
    #[test]
    fn as_numpy() {
        let vectors = Vectors::of("gpu_covariance");
        let (rows, joules, parts) = (vectors.table("rows"), vectors.list("joules"), vectors.list("parts"));
        let windows = || rows.iter().map(Vec::as_slice).zip(joules.iter().copied());
        let found = energies(windows(), &parts);
        near(&found, &vectors.list("energies"), 1e-9);
        let pull = vectors.matrix("pull");
        let relative = relative(windows(), &parts, &parts, &found, pull.as_slice());
        near(&relative, vectors.matrix("relative").as_slice(), 1e-6);
        let sum: f64 = (0..9).map(|at| relative[at] * found[at / 3] * found[at % 3]).sum();
        assert!(sum.abs() < 1e-9 * found.iter().sum::<f64>().powi(2), "{sum}");
    }

    /// A window in which nothing ran gives nobody anything.
    #[test]
    fn empty_windows() {
        let (row, none) = ([1.0, 3.0], [0.0, 0.0]);
        let windows = [(&row[..], 8.0), (&none[..], 5.0)];
        assert_eq!(energies(windows.into_iter(), &[1.0, 1.0]), [2.0, 6.0]);
    }
}
