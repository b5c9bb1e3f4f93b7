//! Medians, quartiles and the Hodges-Lehmann shift. Leaves out intervals (`bootstrap`).

/// The median; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share lies, interpolated as NumPy's default (type 7 of Hyndman and Fan, 1996); NaN of nothing.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

/// As [`quantile`], of values that are in order.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the slice")]
pub(crate) fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let next = sorted[(below + 1).min(last)];
    sorted[below] + (next - sorted[below]) * (at - at.floor())
}

/// Typical size of a difference of pairs: the median of the means of every two, and of each with itself (Hodges and Lehmann, Annals of
/// Mathematical Statistics 34 (1963), 598–611).
pub fn shift_of_pairs(differences: &[f64]) -> f64 {
    let halves = differences
        .iter()
        .enumerate()
        .flat_map(|(at, one)| differences.iter().skip(at).map(move |other| (one + other) / 2.0));
    median(&halves.collect::<Vec<_>>())
}

/// By how much the second set lies above the first: the median of all differences (Hodges and Lehmann, 1963).
pub fn shift(first: &[f64], second: &[f64]) -> f64 {
    let all = second.iter().flat_map(|b| first.iter().map(move |a| b - a));
    median(&all.collect::<Vec<_>>())
}
