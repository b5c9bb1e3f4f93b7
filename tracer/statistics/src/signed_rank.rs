//! Wilcoxon's signed-rank test of pairs: do differences lie to one side of zero?
//!
//! Wilcoxon, Biometrics Bulletin 1 (1945), 80–83. Exact up to 50 pairs without ties and zeros. Else normal: differences of zero are ranked
//! and then left out (Pratt, JASA 54 (1959), 655–667), the variance is that of tied ranks, and continuity is corrected by a half, as
//! SciPy's `wilcoxon(zero_method="pratt", correction=True, method="asymptotic")`. Leaves out effect sizes.

use crate::ranks::rank;
use crate::{Method, Tested, two_sided};

/// Most pairs of the exact distribution.
const EXACT: usize = 50;

/// Tests differences of pairs. The statistic is the smaller sum of ranks. `None` where no difference is there at all.
pub fn signed_rank(differences: &[f64]) -> Option<Tested> {
    let sizes: Vec<f64> = differences.iter().map(|of| of.abs()).collect();
    let zeros = sizes.iter().filter(|size| **size == 0.0).count();
    if zeros == differences.len() || sizes.iter().any(|size| size.is_nan()) {
        return None;
    }
    let ranked = rank(&sizes);
    let sum = |positive: bool| -> f64 {
        let of_sign = differences.iter().zip(&ranked.ranks);
        of_sign.filter(|(of, _)| **of != 0.0 && (**of > 0.0) == positive).map(|(_, rank)| rank).sum()
    };
    let (plus, minus) = (sum(true), sum(false));
    let statistic = plus.min(minus);
    if zeros == 0 && ranked.ties.is_empty() && differences.len() <= EXACT {
        return Some(Tested { statistic, p: exact(statistic, differences.len()), method: Method::Exact });
    }
    // The zeros' own group of ties is left out with them.
    let of_zeros = if zeros > 1 { cube(zeros as f64) } else { 0.0 };
    let ties = ranked.ties.iter().map(|size| cube(*size)).sum::<f64>() - of_zeros;
    let (n, none) = (differences.len() as f64, zeros as f64);
    let mean = (n * (n + 1.0) - none * (none + 1.0)) / 4.0;
    let squares = |n: f64| n * (n + 1.0) * (2.0 * n + 1.0);
    let deviation = ((squares(n) - squares(none) - ties / 2.0) / 24.0).sqrt();
    let away = (statistic - mean).abs() - 0.5;
    Some(Tested { statistic, p: two_sided(away.max(0.0) / deviation), method: Method::Normal })
}

/// Two-sided p-value of the smaller sum of ranks: the share of the 2ⁿ choices of signs at least as far out.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number up to 637")]
fn exact(statistic: f64, pairs: usize) -> f64 {
    let mut chance = vec![0.0; pairs * (pairs + 1) / 2 + 1];
    chance[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..chance.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |before| chance[before]);
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    (2.0 * chance.iter().take(statistic as usize + 1).sum::<f64>()).min(1.0)
}

/// n³ − n.
fn cube(n: f64) -> f64 {
    n * (n * n - 1.0)
}
