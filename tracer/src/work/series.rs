//! The sum of a metric's series from look to look: each counts by itself, whichever come and go.
//!
//! ```text
//!  series              a 5   a 7, b 2   b 4      b 4, c 9
//!  what was done             2          2        0            of b before its first number, and of a before it went, nobody knows
//!  told                5     7          2        2            a sum that falls is one that began anew
//! ```
//!
//! As Prometheus has it, a series counts from its first number on, and one that falls began at nothing. Where one falls or goes the sum begins anew
//! with what was done since, if that is less; else that is added. Leaves out the page (`exposition.rs`).

use energy_trace_model::recording::record::{WorkFailure, WorkUnits};
use std::collections::BTreeMap;

/// Series of one metric that are told apart.
pub(super) const MOST: usize = 10_000;

/// The series of a page, by what their labels are.
pub(super) type Series = BTreeMap<u64, WorkUnits>;

/// A metric from look to look.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// The last number of each series, and whether it was there in the last look.
    known: BTreeMap<u64, (WorkUnits, bool)>,
    told: Option<WorkUnits>,
}

impl Sum {
    /// The sum after a look that found these.
    pub(super) fn take(&mut self, found: &Series) -> Result<WorkUnits, WorkFailure> {
        if found.len() > MOST {
            return Err(WorkFailure::System { error: format!("it has more than {MOST} series") });
        }
        // All numbers of the first look are what the sum begins with.
        let unknown = |number| if self.told.is_none() { WorkUnits::ZERO } else { number };
        let before =
            |series, number| self.known.get(series).map_or_else(|| unknown(number), |(number, _)| *number);
        let mut more = found.iter().map(|(series, number)| number.since(before(series, *number)));
        let more = more.try_fold(WorkUnits::ZERO, WorkUnits::checked_add);
        let is_gone =
            self.known.iter().any(|(series, (_, was_there))| *was_there && !found.contains_key(series));
        let is_broken = is_gone || found.iter().any(|(series, number)| *number < before(series, *number));
        self.remember(found);
        let more = more.ok_or(WorkFailure::NoNumber)?;
        let told = self.told.unwrap_or_default();
        let sum = if is_broken && more < told { Some(more) } else { told.checked_add(more) };
        let sum = sum.ok_or(WorkFailure::NoNumber)?;
        self.told = Some(sum);
        Ok(sum)
    }

    /// Series that are gone may come back; of endlessly many none is remembered.
    fn remember(&mut self, found: &Series) {
        self.known.values_mut().for_each(|(_, is_there)| *is_there = false);
        self.known.extend(found.iter().map(|(series, number)| (*series, (*number, true))));
        if self.known.len() > MOST {
            self.known.retain(|_, (_, is_there)| *is_there);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Series, Sum, WorkUnits};

    /// What is told of looks at series with these numbers.
    fn told(looks: &[&[(u64, u64)]]) -> Vec<Option<f64>> {
        let mut sum = Sum::default();
        let series = |look: &[(u64, u64)]| {
            look.iter().map(|(at, of)| (*at, WorkUnits::whole(*of))).collect::<Series>()
        };
        looks.iter().map(|look| sum.take(&series(look)).ok().map(WorkUnits::as_number)).collect()
    }

    /// What each look adds is what its series did, and the sum falls where one of them fell or is gone, however much the others did.
    #[test]
    fn series_that_come_and_go() {
        let some = |numbers: &[f64]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(
            told(&[&[(1, 5)], &[(1, 7), (2, 2)], &[(2, 4)], &[(2, 4), (3, 9)]]),
            some(&[5.0, 7.0, 2.0, 2.0])
        );
        // A whole life that appears at once was not done between two looks.
        assert_eq!(told(&[&[(1, 5)], &[(1, 6), (2, 1_300)], &[(1, 6), (2, 1_301)]]), some(&[5.0, 6.0, 7.0]));
        // The others' 1,500 hide neither the end of one nor that another begins anew.
        assert_eq!(told(&[&[(1, 9_000), (2, 0)], &[(2, 1_500)]]), some(&[9_000.0, 1_500.0]));
        assert_eq!(told(&[&[(1, 9_000), (2, 0)], &[(1, 20), (2, 1_500)]]), some(&[9_000.0, 1_520.0]));
        // One that comes back goes on.
        assert_eq!(told(&[&[(1, 900), (2, 5)], &[(2, 6)], &[(1, 903), (2, 6)]]), some(&[905.0, 1.0, 4.0]));
        // Of a metric whose labels are others in each look nothing is known.
        assert_eq!(told(&[&[(1, 5)], &[(2, 4)], &[(3, 6)], &[(4, 3)]]), some(&[5.0, 0.0, 0.0, 0.0]));
    }

    /// Series without end take no more memory than a page.
    #[test]
    fn endless_series() {
        let mut sum = Sum::default();
        let look = |from: usize, count: usize| -> Series {
            (from..from + count).map(|at| (at as u64, WorkUnits::whole(1))).collect()
        };
        assert!(sum.take(&look(0, MOST + 1)).is_err());
        for round in 0..5 {
            assert!(sum.take(&look(round * MOST, MOST)).is_ok());
            assert!(sum.known.len() <= MOST);
        }
    }
}
