//! The sum of a metric's series from look to look: each counts by itself, whichever come and go.
//!
//! ```text
//!  series              a 5   a 7, b 2   b 4      b 4, c 9   b 1, c 3
//!  what was done             2          2        0
//!  told                5     7          none     9          4
//! ```
//!
//! As Prometheus has it, a series counts from its first number on, and one that falls began at nothing. Where some fall or go nobody knows what they
//! did: that look tells no number. Where all of them did the program began anew, and the sum with it. Leaves out the page (`exposition.rs`).

use energy_trace_model::recording::record::{WorkFailure, WorkUnits};
use std::collections::BTreeMap;

/// Series of one metric that are told apart.
pub(super) const MOST: usize = 10_000;

/// The series of a page, by what their labels are.
pub(super) type Series = BTreeMap<u64, WorkUnits>;

/// A metric from look to look.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// The last look.
    known: Series,
    told: Option<WorkUnits>,
}

impl Sum {
    /// The sum after a look that found these.
    pub(super) fn take(&mut self, found: &Series) -> Result<WorkUnits, WorkFailure> {
        if found.len() > MOST {
            return Err(WorkFailure::System { error: format!("it has more than {MOST} series") });
        }
        let known = std::mem::replace(&mut self.known, found.clone());
        let Some(told) = self.told else { return self.tell(sum(found.values().copied())) };
        let stays = |(series, before): (&u64, &WorkUnits)| found.get(series).is_some_and(|now| now >= before);
        let staying = known.iter().filter(|of| stays(*of)).count();
        if staying == 0 {
            let all = sum(found.iter().filter(|(series, _)| known.contains_key(series)).map(|(_, now)| *now));
            // Told from a smaller number on it would seem to go on.
            return if all.is_some_and(|all| all < told) { self.tell(all) } else { Err(broken()) };
        }
        let grown = found.iter().filter_map(|(series, now)| {
            known.get(series).filter(|before| now >= before).map(|before| now.since(*before))
        });
        let all = self.tell(sum(grown.chain([told])));
        if staying == known.len() { all } else { Err(broken()) }
    }

    fn tell(&mut self, sum: Option<WorkUnits>) -> Result<WorkUnits, WorkFailure> {
        self.told = Some(sum.ok_or(WorkFailure::NoNumber)?);
        sum.ok_or(WorkFailure::NoNumber)
    }
}

fn sum(mut numbers: impl Iterator<Item = WorkUnits>) -> Option<WorkUnits> {
    numbers.try_fold(WorkUnits::ZERO, WorkUnits::checked_add)
}

fn broken() -> WorkFailure {
    WorkFailure::System { error: "some of its series fell or are gone".to_owned() }
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

    /// What each look adds is what its series did. A look in which some fell or are gone tells no number, however much the others did, and the sum
    /// falls where all did.
    #[test]
    fn series_that_come_and_go() {
        let row = [&[(1, 5)][..], &[(1, 7), (2, 2)], &[(2, 4)], &[(2, 4), (3, 9)], &[(2, 1), (3, 3)]];
        assert_eq!(told(&row), [Some(5.0), Some(7.0), None, Some(9.0), Some(4.0)]);
        assert_eq!(
            told(&[&[(1, 9_000), (2, 0)], &[(1, 20), (2, 1_500)], &[(1, 30), (2, 1_500)]]),
            [Some(9_000.0), None, Some(10_510.0)]
        );
        // After one that fell, another does not seem to go on.
        let row = [&[(1, 900), (2, 5)][..], &[(1, 901)], &[(1, 800)], &[(1, 801)]];
        assert_eq!(told(&row), [Some(905.0), None, Some(800.0), Some(801.0)]);
        let row = [&[(1, 1)][..], &[(2, 500)], &[(2, 504)], &[(2, 300)], &[(2, 304)]];
        assert_eq!(told(&row), [Some(1.0), Some(0.0), Some(4.0), None, Some(8.0)]);
        // A whole life that appears at once was not done between two looks, nor what one did while it was away.
        assert_eq!(
            told(&[&[(1, 5)], &[(1, 6), (2, 1_300)], &[(1, 6), (2, 1_301)]]),
            [Some(5.0), Some(6.0), Some(7.0)]
        );
        let row = [&[(1, 900), (2, 5)][..], &[(2, 6)], &[(1, 903), (2, 6)], &[(1, 904), (2, 6)]];
        assert_eq!(told(&row), [Some(905.0), None, Some(906.0), Some(907.0)]);
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
            let _no_number = sum.take(&look(round * MOST, MOST));
            assert!(sum.known.len() <= MOST);
        }
    }
}
