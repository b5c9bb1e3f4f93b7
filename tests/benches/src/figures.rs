//! What tables are made of: medians and ratios.

/// 0 of nothing is 0.
#[expect(clippy::cast_precision_loss, reason = "counts of samples are far below 2^53")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The middle value; the mean of the two in the middle; of nothing, not a number.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    match (values.get(upper), values.len() % 2) {
        (None, _) => f64::NAN,
        (Some(&middle), 1) => middle,
        (Some(&above), _) => f64::midpoint(values[upper - 1], above),
    }
}

/// The median, the least and the most.
pub(crate) fn spread(values: &[f64]) -> [f64; 3] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [median(values.to_vec()), least, most]
}

#[cfg(test)]
mod tests {
    use super::{median, spread};

    /// Odd, even and empty lists.
    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    /// Whatever their order.
    #[test]
    fn spreads() {
        assert_eq!(spread(&[3.0, -1.0, 2.0]), [2.0, -1.0, 3.0]);
    }
}
