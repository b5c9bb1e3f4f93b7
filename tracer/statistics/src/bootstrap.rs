//! Intervals by drawing runs anew, for the ratio of medians.
//!
//! Efron, Annals of Statistics 7 (1979), 1–26, by percentiles. Coverage is simulated in `tests/studies.rs`. Leaves out other statistics.

use crate::location::quantile_of_sorted;

/// How often runs are drawn anew.
pub const DRAWS: usize = 4_000;

/// What two programs have in a round: `None` where one has nothing, as its run failed.
pub type Round = (Option<f64>, Option<f64>);

/// The 95 % interval of median(second) / median(first), of rounds that are drawn whole. The same seed gives the same interval. `None` of
/// fewer than two rounds, where one has nothing in any, and where the first median can be zero or less.
pub fn ratio_of_medians(rounds: &[Round], seed: u64) -> Option<(f64, f64)> {
    if rounds.len() < 2 {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ratios = Vec::with_capacity(DRAWS);
    let (mut first, mut second) = (Vec::with_capacity(rounds.len()), Vec::with_capacity(rounds.len()));
    for _ in 0..DRAWS {
        first.clear();
        second.clear();
        for _ in 0..rounds.len() {
            let (one, other) = rounds[random.usize(..rounds.len())];
            first.extend(one);
            second.extend(other);
        }
        if first.is_empty() || second.is_empty() {
            continue;
        }
        let below = middle(&mut first);
        ratios.push(middle(&mut second) / (below > 0.0).then_some(below)?);
    }
    ratios.sort_by(f64::total_cmp);
    (!ratios.is_empty()).then(|| (quantile_of_sorted(&ratios, 0.025), quantile_of_sorted(&ratios, 0.975)))
}

/// The median, by partial order: it is asked thousands of times.
fn middle(values: &mut [f64]) -> f64 {
    let at = values.len() / 2;
    let (lower, upper, _) = values.select_nth_unstable_by(at, f64::total_cmp);
    let upper = *upper;
    match lower.iter().copied().max_by(f64::total_cmp) {
        Some(below) if values.len().is_multiple_of(2) => f64::midpoint(below, upper),
        _ => upper,
    }
}
