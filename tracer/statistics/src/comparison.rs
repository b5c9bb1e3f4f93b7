//! Two programs that ran in pairs: the numbers, and the verdict. Leaves out what was measured, and words for it.

use crate::bootstrap::Round;
use crate::effect::a12;
use crate::location::{median, shift_of_pairs};
use crate::power::{detectable, least_pairs};
use crate::signed_rank::signed_rank;
use crate::{Tested, bootstrap};

/// A finding is wrong with this chance, for all tests of a family together.
pub const ALPHA: f64 = 0.05;

/// What pairs of runs show of one quantity: the second program beside the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Rounds in which both ran to their end.
    pub pairs: usize,
    /// The signed-rank test; `None`: all pairs are equal, or there are none.
    pub tested: Option<Tested>,
    /// Chance that a run of the second uses more than one of the first.
    pub a12: f64,
    /// Median of the second over median of the first; `None` where that is not above nothing, or one of them never ran.
    pub ratio: Option<f64>,
    /// Its 95 % interval; `None` of fewer pairs than show anything: drawn anew, so few miss the truth more often than one time in twenty.
    pub interval: Option<(f64, f64)>,
    /// By how much the second uses more (Hodges and Lehmann).
    pub shift: f64,
    /// The difference that so many pairs show four times out of five, as a part of the first's median; `None` where they show none.
    pub detectable: Option<f64>,
}

impl Comparison {
    /// The p-value before correction: 1 where nothing differs.
    pub fn p(&self) -> f64 {
        self.tested.map_or(1.0, |tested| tested.p)
    }
}

/// What may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They differ by more than chance explains.
    Differ,
    /// No difference is shown; that is not to say that there is none.
    NotShown,
    /// The numbers are the same in every pair.
    Equal,
    /// Too few pairs for any result to be one.
    TooFew {
        /// How many it takes at least.
        needed: usize,
    },
}

/// Compares rounds (first, second): medians and their ratio are of all that each has, tests and differences of the rounds in which both have
/// something.
pub fn compare(rounds: &[Round], seed: u64) -> Comparison {
    let first: Vec<f64> = rounds.iter().filter_map(|round| round.0).collect();
    let second: Vec<f64> = rounds.iter().filter_map(|round| round.1).collect();
    let differences: Vec<f64> = rounds.iter().filter_map(|&(a, b)| Some(b? - a?)).collect();
    let (middle, pairs) = (median(&first), differences.len());
    let smallest = detectable(deviation(&differences), pairs, ALPHA);
    let are_enough = pairs >= least_pairs(ALPHA, 1);
    Comparison {
        pairs,
        tested: signed_rank(&differences),
        a12: a12(&second, &first),
        ratio: Some(median(&second) / middle).filter(|ratio| middle > 0.0 && ratio.is_finite()),
        interval: are_enough.then(|| bootstrap::ratio_of_medians(rounds, seed)).flatten(),
        shift: shift_of_pairs(&differences),
        detectable: smallest.filter(|_| are_enough && middle > 0.0).map(|of| of / middle),
    }
}

/// The verdict, from a p-value that was corrected for `tests` tests.
pub fn judge(found: &Comparison, adjusted: f64, tests: usize) -> Verdict {
    let needed = least_pairs(ALPHA, tests);
    match () {
        () if found.pairs > 0 && found.tested.is_none() => Verdict::Equal,
        () if found.pairs < needed => Verdict::TooFew { needed },
        () if adjusted <= ALPHA => Verdict::Differ,
        () => Verdict::NotShown,
    }
}

/// Standard deviation of a sample; NaN below two.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}
