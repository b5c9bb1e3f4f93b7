//! One run in a few numbers, as they are kept in the repository. Leaves out how they are shown (`table.rs`).

use super::measure::{Held, Outcome};
use super::table::{median, most};
use serde::{Deserialize, Serialize};

/// What one run says; errors in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub seed: u64,
    /// The largest error of a function with 5 % of the energy that is not flagged.
    pub worst_function: f64,
    /// Median and largest error of nodes with 1 % of the energy, flagged or not; and of a split by CPU time.
    pub nodes: (f64, f64),
    pub by_time: (f64, f64),
    /// Nodes with 1 % of the energy, true or shown; those with the truth in interval or bounds; those that are not flagged and off by more than
    /// two half-widths.
    pub count: usize,
    pub covered: usize,
    pub far_outside: usize,
    /// Parts of the energy that is flagged, and that is not but has a wide interval, in percent.
    pub flagged: f64,
    pub wide: f64,
    /// Error of the target's whole energy.
    pub target: f64,
    pub imbalance_uj: i64,
}

impl From<&Outcome> for Summary {
    fn from(outcome: &Outcome) -> Self {
        let both = |of: fn(&Held) -> f64| {
            let errors = outcome.errors(of);
            let most = most(&errors);
            (rounded(median(errors)), rounded(most))
        };
        let count = |of: fn(&&Held) -> bool| outcome.nodes.iter().filter(of).count();
        Self {
            seed: outcome.seed,
            worst_function: rounded(outcome.worst_function()),
            nodes: both(Held::error),
            by_time: both(Held::time_error),
            count: outcome.nodes.len(),
            covered: count(|node| node.covered()),
            far_outside: count(|node| node.is_far()),
            flagged: rounded(100.0 * outcome.flagged),
            wide: rounded(100.0 * outcome.wide),
            target: rounded(100.0 * (outcome.target.1 / outcome.target.0 - 1.0).abs()),
            imbalance_uj: outcome.imbalance_uj,
        }
    }
}

/// To a thousandth, so that the file stays small.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
