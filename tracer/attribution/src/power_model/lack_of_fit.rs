//! Whether the windows are what the powers say, held against physics alone.
//!
//! ```text
//! Q = mean of r_k² / (V_k + s_k²)     about 1 where times and the counter explain all that windows stray by
//! ```
//!
//! There is no noise in it that was found in the residuals themselves: a model that explains nothing would
//! find all of them ordinary. φ (`fit`) says by how much powers differ from window to window, and `chain` for
//! how many windows they stay different. What Q cannot excuse, φ carries into every interval (`uncertainty`);
//! beyond `MOST_FLUCTUATION` nothing that the powers say is used.
//!
//! Leaves out the limits (`profile::validity`).

use super::design::Design;
use super::fit::Fit;
use energy_trace_model::profile::validity::ValidityChecks;

/// One window says no more than this about Q.
const MOST_SQUARE: f64 = 1e4;
/// One window counts no more than one that is ten standard deviations off.
const MOST_STRAY: f64 = 100.0;
/// Windows this near to each other may stray alike.
pub(crate) const BLOCK_NS: u64 = 2_000_000_000;

/// What a fit shows.
pub(crate) fn checks_of(fit: &Fit) -> ValidityChecks {
    ValidityChecks { misfit: misfit(&fit.residuals, &fit.physical), fluctuation: fit.fluctuation.sqrt() }
}

/// Q; 1 where there are no windows.
#[expect(clippy::cast_precision_loss, reason = "a count")]
fn misfit(residuals: &[f64], physical: &[f64]) -> f64 {
    let square = |(r, v): (&f64, &f64)| (r * r / v.max(f64::MIN_POSITIVE)).min(MOST_SQUARE);
    let sum: f64 = residuals.iter().zip(physical).map(square).sum();
    if residuals.is_empty() { 1.0 } else { sum / residuals.len() as f64 }
}

/// What is left when physics and φ have explained what they can: the mean square of residuals in their
/// standard deviations, never less than 1, by which variances are multiplied (Birge: The calculation of
/// errors by the method of least squares, Phys. Rev. 40, 1932). φ is the median window's; a disturbance of
/// some windows shows here alone.
pub(crate) fn birge(squares: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        squares.fold((0.0, 0), |(sum, count), square| (sum + square.min(MOST_STRAY), count + 1));
    (sum / f64::from(count.max(1))).max(1.0)
}

/// For how many windows in a row what they stray by stays the same: 1 where each is for itself. It is the
/// variance of sums over blocks (`BLOCK_NS`) beside that of windows.
#[expect(clippy::cast_precision_loss, reason = "a count")]
pub(crate) fn chain(design: &Design, fit: &Fit) -> f64 {
    let z: Vec<f64> = fit.residuals.iter().zip(&fit.weights).map(|(r, weight)| r * weight.sqrt()).collect();
    let blocks = design.windows.blocks(BLOCK_NS);
    let of_blocks: f64 = blocks.iter().map(|block| z[block.clone()].iter().sum::<f64>().powi(2)).sum();
    let of_windows: f64 = z.iter().map(|z| z * z).sum();
    let longest = z.len() as f64 / blocks.len().max(1) as f64;
    if of_windows > 0.0 { (of_blocks / of_windows).clamp(1.0, longest.max(1.0)) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::{Fit, birge, chain, misfit};
    use crate::power_model::tests::toy::Toy;

    /// What physics explains gives 1; what it does not, more; nothing at all is no misfit.
    #[test]
    fn misfits() {
        assert!((misfit(&[0.1, -0.1], &[0.01, 0.01]) - 1.0).abs() < 1e-12);
        assert!((misfit(&[0.3, 0.3], &[0.01, 0.01]) - 9.0).abs() < 1e-12);
        assert!((misfit(&[1e9], &[0.0]) - 1e4).abs() < 1e-9);
        assert!((misfit(&[], &[]) - 1.0).abs() < 1e-12);
    }

    /// Windows within their variances say nothing; a tenth of them at five standard deviations multiplies
    /// variances by 3.3, and one that is far beyond by no more than one at ten.
    #[test]
    fn birge_ratios() {
        let with = |disturbed: f64, count: usize| {
            birge((0..100).map(move |window| if window < count { disturbed } else { 0.9 }))
        };
        assert!((with(0.5, 100) - 1.0).abs() < 1e-12);
        assert!((with(25.0, 10) - (2.5 + 0.81)).abs() < 1e-9);
        assert!((with(1e9, 1) - (1.0 + 0.891)).abs() < 1e-9);
        assert!((birge([].into_iter()) - 1.0).abs() < 1e-12);
    }

    /// Windows of 20 ms, a hundred a block: where all stray to one side the chain is as long as a block,
    /// where each second one does the other way, or where nothing strays, it is 1; sixty up and forty down in
    /// each block are 20² / 100.
    #[test]
    fn chains() {
        let toy = Toy::new(20.0, &vec![vec![5.0, 3.0]; 400], &[0.1; 400], 0.0);
        let of = |residual: fn(u32) -> f64| {
            let fit = Fit {
                mean: 1.0,
                watts: vec![1.0; 2],
                residuals: (0..400).map(residual).collect(),
                physical: vec![],
                fluctuation: 0.0,
                weights: vec![4.0; 400],
                variances: vec![0.25; 400],
                likelihood: 0.0,
                by_pairs: None,
            };
            chain(&toy.design(), &fit)
        };
        assert!((of(|_| 0.5) - 100.0).abs() < 1e-9);
        assert!((of(|k| if k % 2 == 0 { 1.0 } else { -1.0 }) - 1.0).abs() < 1e-9);
        assert!((of(|_| 0.0) - 1.0).abs() < 1e-9);
        assert!((of(|k| if k % 100 < 60 { 1.0 } else { -1.0 }) - 4.0).abs() < 1e-9);
    }
}
