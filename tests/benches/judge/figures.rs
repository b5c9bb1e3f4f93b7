//! What the judge counts: errors, coverage, width, flags and time of each run, and their means with standard errors.
//!
//! Leaves out how runs are attributed (`measure`).

use energy_trace_scenarios::worlds::measure::{Held, Outcome};
use std::collections::BTreeMap;

/// A function is large from this part of the target's true energy on, and a node counts.
const LARGE: f64 = 0.05;
const SMALL: f64 = 0.01;
/// No error, and no half-width, counts for more, so that one small node does not decide: in percent. Nor does an error of more half-widths.
const MOST: f64 = 100.0;

/// One run, in percent where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Of what it is a run.
    pub(crate) name: String,
    /// Mean errors of functions of 5 %, and of nodes of 1 %, flagged or not; and of nodes by CPU time.
    pub(crate) functions: f64,
    pub(crate) nodes: f64,
    pub(crate) by_time: f64,
    /// Mean half-width of the nodes' intervals.
    pub(crate) half_width: f64,
    /// Nodes with the truth in their interval, of all; and those not flagged that are far outside.
    pub(crate) covered: f64,
    pub(crate) far: f64,
    /// Part of the energy that is flagged.
    pub(crate) flagged: f64,
    pub(crate) seconds: f64,
    pub(crate) imbalance_uj: i64,
    /// Each node's error in half-widths.
    pub(crate) stray: Vec<f64>,
}

impl Figures {
    pub(crate) fn of(name: &str, outcome: &Outcome) -> Self {
        let all = &outcome.nodes;
        let has = |part: f64| move |node: &&Held| node.truth >= part * outcome.target.0;
        let large: Vec<&Held> = all.iter().filter(has(LARGE)).filter(|node| node.is_function).collect();
        let small: Vec<&Held> = all.iter().filter(has(SMALL)).collect();
        let of = |nodes: &[&Held], of: fn(&Held) -> f64| mean(nodes.iter().map(|node| of(node).min(MOST)));
        let covered = all.iter().filter(|node| node.in_interval()).count();
        Self {
            name: name.to_owned(),
            functions: of(&large, Held::error),
            nodes: of(&small, Held::error),
            by_time: of(&small, Held::time_error),
            half_width: of(&small, half_width),
            covered: 100.0 * covered as f64 / all.len().max(1) as f64,
            far: all.iter().filter(|node| node.is_far()).count() as f64,
            flagged: 100.0 * outcome.flagged,
            seconds: outcome.seconds,
            imbalance_uj: outcome.imbalance_uj,
            stray: small.iter().map(|node| (node.error() / half_width(node).max(1e-9)).min(MOST)).collect(),
        }
    }
}

/// Half of a node's interval in percent of its true energy.
fn half_width(node: &Held) -> f64 {
    50.0 * (node.ci95.1 - node.ci95.0) / node.truth
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// A mean, and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl Mean {
    /// Of independent values; one alone has no standard error.
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = mean(values.iter().copied());
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        let error = if count > 1.0 { (squares / (count - 1.0) / count).sqrt() } else { f64::INFINITY };
        Self { value, error }
    }

    /// Whether it is more than two standard errors from zero.
    pub(crate) fn is_clear(self) -> bool {
        self.value.abs() > 2.0 * self.error
    }
}

/// All runs of one row in one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(Vec<Figures>);

impl Sums {
    pub(crate) fn add(&mut self, figures: Figures) {
        self.0.push(figures);
    }

    /// The runs of each thing apart.
    pub(crate) fn by_name(&self) -> BTreeMap<&str, Self> {
        let mut by_name = BTreeMap::<&str, Self>::new();
        self.0.iter().for_each(|run| by_name.entry(&run.name).or_default().add(run.clone()));
        by_name
    }

    pub(crate) fn mean(&self, of: fn(&Figures) -> f64) -> Mean {
        Mean::of(&self.0.iter().map(of).collect::<Vec<f64>>())
    }

    /// How much more it is than in another row, run by run.
    pub(crate) fn more_than(&self, other: &Self, of: fn(&Figures) -> f64) -> Mean {
        let pairs = self.0.iter().zip(&other.0);
        Mean::of(&pairs.map(|(one, other)| of(one) - of(other)).collect::<Vec<f64>>())
    }

    pub(crate) fn sum(&self, of: fn(&Figures) -> f64) -> f64 {
        self.0.iter().map(of).sum()
    }

    /// Mean half-width beside mean error: 2.46 where errors are normal and intervals right.
    pub(crate) fn width_over_error(&self) -> f64 {
        self.sum(|run| run.half_width) / self.sum(|run| run.nodes).max(1e-9)
    }

    /// By what all intervals would have to be multiplied to hold 95 % of the nodes.
    pub(crate) fn factor(&self) -> f64 {
        let mut stray: Vec<f64> = self.0.iter().flat_map(|run| run.stray.iter().copied()).collect();
        stray.sort_by(f64::total_cmp);
        stray.get(stray.len() * 95 / 100).copied().unwrap_or(0.0)
    }

    pub(crate) fn imbalance_uj(&self) -> i64 {
        self.0.iter().map(|run| run.imbalance_uj).sum()
    }
}
