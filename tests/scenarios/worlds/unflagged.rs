//! Of the nodes that nothing flags, how many are outside of their interval, over many runs: what "never far outside" is a part of.
//!
//! Leaves out nodes that are flagged (`summary.rs` counts all).

use super::measure::{Held, Outcome};
use std::fmt::{Display, Formatter, Result};

/// A counter of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unflagged {
    /// All nodes of all runs, flagged or not.
    pub all: usize,
    pub nodes: usize,
    /// Outside of their interval, and by more than twice its half-width.
    pub outside: usize,
    pub far: usize,
    /// Runs with one that is far outside: its nodes hold each other, and so are often one thing.
    pub runs_far: usize,
}

impl Unflagged {
    pub fn add(&mut self, outcome: &Outcome) {
        let unflagged: Vec<&Held> = outcome.nodes.iter().filter(|node| !node.flagged).collect();
        let far = unflagged.iter().filter(|node| node.far_outside()).count();
        self.all += outcome.nodes.len();
        self.nodes += unflagged.len();
        self.outside += unflagged.iter().filter(|node| !node.covered()).count();
        self.far += far;
        self.runs_far += usize::from(far > 0);
    }
}

impl Display for Unflagged {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        let Self { all, nodes, outside, far, runs_far } = *self;
        let percent = 100.0 * outside as f64 / nodes.max(1) as f64;
        write!(
            to,
            "Unflagged: {nodes} of {all} nodes; outside of their interval: {outside} ({percent:.1} %); by more than two half-widths: {far}, in \
             {runs_far} runs."
        )
    }
}
