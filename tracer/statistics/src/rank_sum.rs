//! The rank-sum test of two sets (Wilcoxon, Mann and Whitney): do values of one set tend to be larger?
//!
//! Mann and Whitney, Annals of Mathematical Statistics 18 (1947), 50–60. Exact up to 50 values a side without ties, else normal with the
//! variance of tied ranks and continuity corrected, as SciPy's `mannwhitneyu`. Leaves out effect sizes.

use crate::ranks::rank;
use crate::{Method, Tested, two_sided};

/// Most values a side of the exact distribution.
const EXACT: usize = 50;

/// Tests two sets. The statistic is U of the first: how many pairs it wins, ties counting a half. `None` where a set is empty, holds what
/// is no number, or where all values are equal.
pub fn rank_sum(first: &[f64], second: &[f64]) -> Option<Tested> {
    let both: Vec<f64> = first.iter().chain(second).copied().collect();
    let all_equal = both.windows(2).all(|pair| pair[0] == pair[1]);
    if first.is_empty() || second.is_empty() || all_equal || both.iter().any(|value| value.is_nan()) {
        return None;
    }
    let ranked = rank(&both);
    let (m, n) = (first.len() as f64, second.len() as f64);
    let statistic = ranked.ranks.iter().take(first.len()).sum::<f64>() - m * (m + 1.0) / 2.0;
    let larger = statistic.max(m * n - statistic);
    if ranked.ties.is_empty() && first.len().max(second.len()) <= EXACT {
        let p = exact(m * n - larger, first.len(), second.len());
        return Some(Tested { statistic, p, method: Method::Exact });
    }
    let all = m + n;
    let ties: f64 = ranked.ties.iter().map(|size| size * (size * size - 1.0)).sum();
    let deviation = (m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)))).sqrt();
    let away = larger - m * n / 2.0 - 0.5;
    Some(Tested { statistic, p: two_sided(away.max(0.0) / deviation), method: Method::Normal })
}

/// Two-sided p-value of the smaller U. The largest value is the first set's with chance m / (m + n) and then wins all n pairs, so
/// P(m, n, u) = m / (m + n) · P(m − 1, n, u − n) + n / (m + n) · P(m, n − 1, u).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number up to 2,500")]
fn exact(smaller: f64, first: usize, second: usize) -> f64 {
    let certain = || {
        let mut at_zero = vec![0.0; first * second + 1];
        at_zero[0] = 1.0;
        at_zero
    };
    let mut row: Vec<Vec<f64>> = (0..=second).map(|_| certain()).collect();
    for m in 1..=first {
        let mut next = vec![certain()];
        for n in 1..=second {
            let wins = m as f64 / (m + n) as f64;
            let chance = (0..=first * second).map(|u| {
                let won = u.checked_sub(n).map_or(0.0, |before| row[n][before]);
                wins * won + (1.0 - wins) * next[n - 1][u]
            });
            let chance: Vec<f64> = chance.collect();
            next.push(chance);
        }
        row = next;
    }
    let tail: f64 = row[second].iter().take(smaller as usize + 1).sum();
    (2.0 * tail).min(1.0)
}
