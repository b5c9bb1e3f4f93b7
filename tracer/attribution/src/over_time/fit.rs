//! Iterative proportional fitting of a sparse table to its margins, and rounding to whole microjoules.
//!
//! Leaves out what the table is of.

use energy_trace_model::units::MicroJoules;

/// Most rounds; margins that go together are met long before.
const ROUNDS: usize = 40;
/// Margins are met where no column is further off than this part of all.
const CLOSE: f64 = 1e-9;

/// Scales weights, each in one row and column, until their sums are as wanted: of the rows as well as may be,
/// of the columns where that is possible too. Margins below zero count as zero.
pub(super) fn fit(weights: &mut [f64], rows: &[f64], columns: &[f64], at: impl Fn(usize) -> (usize, usize)) {
    let all: f64 = rows.iter().map(|wanted| wanted.max(0.0)).sum();
    let of_columns: f64 = columns.iter().map(|wanted| wanted.max(0.0)).sum();
    if all <= 0.0 || of_columns <= 0.0 {
        return;
    }
    let columns: Vec<f64> = columns.iter().map(|wanted| wanted.max(0.0) * all / of_columns).collect();
    for _ in 0..ROUNDS {
        let off = scale(weights, &columns, |place| at(place).1);
        scale(weights, rows, |place| at(place).0);
        if off <= CLOSE * all {
            break;
        }
    }
}

/// Scales the weights of each group to its sum; says how far off the worst was.
fn scale(weights: &mut [f64], wanted: &[f64], group: impl Fn(usize) -> usize) -> f64 {
    let mut sums = vec![0.0; wanted.len()];
    weights.iter().enumerate().for_each(|(place, weight)| sums[group(place)] += weight);
    let off = wanted.iter().zip(&sums).map(|(wanted, sum)| (wanted.max(0.0) - sum).abs()).fold(0.0, f64::max);
    let factor = |(wanted, sum): (&f64, &f64)| if *sum > 0.0 { wanted.max(0.0) / sum } else { 0.0 };
    let factors: Vec<f64> = wanted.iter().zip(&sums).map(factor).collect();
    weights.iter_mut().enumerate().for_each(|(place, weight)| *weight *= factors[group(place)]);
    off
}

/// An energy in whole parts that sum to it, by weights; by equal ones where there are none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of one, scaled to 40 bits"
)]
pub(super) fn apportion(whole: MicroJoules, weights: &[f64]) -> Vec<MicroJoules> {
    let most = weights.iter().copied().fold(0.0, f64::max);
    let scaled = |weight: &f64| (weight.max(0.0) / most * (1_u64 << 40) as f64) as u64;
    let parts = if most > 0.0 { whole.split(&weights.iter().map(scaled).collect::<Vec<_>>()) } else { None };
    parts.or_else(|| whole.split(&vec![1; weights.len()])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, apportion, fit};

    /// A table that starts even meets both margins; a place that is empty stays so.
    #[test]
    fn both_margins_are_met() {
        let at = |place: usize| (place / 3, place % 3);
        let mut weights = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0];
        fit(&mut weights, &[3.0, 7.0], &[2.0, 4.0, 4.0], at);
        let row = |row: usize| weights[3 * row..3 * row + 3].iter().sum::<f64>();
        let column = |column: usize| weights[column] + weights[column + 3];
        assert_eq!(weights[2], 0.0);
        for (found, wanted) in
            [(row(0), 3.0), (row(1), 7.0), (column(0), 2.0), (column(1), 4.0), (column(2), 4.0)]
        {
            assert!((found - wanted).abs() < 1e-6, "{weights:?}");
        }
    }

    /// Where the margins contradict each other, rows are right and nothing is no number.
    #[test]
    fn rows_win() {
        let at = |place: usize| (place, place);
        let mut weights = [1.0, 1.0, 0.0];
        fit(&mut weights, &[3.0, 7.0, 1.0], &[-5.0, 2.0, 4.0], at);
        assert!(weights.iter().all(|weight| weight.is_finite()), "{weights:?}");
        assert!((weights[1] - 7.0).abs() < 1e-9, "{weights:?}");
    }

    /// Parts sum to the whole, below zero and without weights too.
    #[test]
    fn parts_are_exact() {
        let parts = |uj, weights: &[f64]| -> Vec<i64> {
            apportion(MicroJoules::from_uj(uj), weights).iter().map(|part| part.as_uj()).collect()
        };
        assert_eq!(parts(12, &[1e-30, 3e-30, -1.0]), [3, 9, 0]);
        assert_eq!(parts(-10, &[1.0, 1.0]), [-5, -5]);
        assert_eq!(parts(5, &[0.0, f64::NAN]), [3, 2]);
        assert!(parts(5, &[]).is_empty());
    }
}
