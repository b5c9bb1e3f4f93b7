//! The table of worlds: medians and extremes over seeds, as Markdown.
//!
//! Leaves out how the numbers come about (`measure.rs`).

use super::measure::{Held, Outcome};
use std::fmt::Write as _;

/// The table's head.
pub(crate) const HEAD: &str = "\
| world | Hz | runs | worst unflagged function ≥ 5 %: median (most) | nodes ≥ 1 %: median (most) | by CPU time: median (most) | flagged | wide | truth in interval or bounds | unflagged, off by > 2 half-widths | target | ΔµJ | s |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// The middle of some values; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(0.0);
    f64::midpoint(middle(values.len().saturating_sub(1) / 2), middle(values.len() / 2))
}

/// The largest of some values; 0 of none.
pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// One line: a world at one sampling rate.
pub(crate) fn line(title: &str, hz: u64, outcomes: &[Outcome]) -> String {
    let each = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<f64>>();
    let errors = |of: fn(&Held) -> f64| outcomes.iter().flat_map(|o| o.errors(of)).collect::<Vec<f64>>();
    let count = |of: fn(&Held) -> bool| {
        outcomes.iter().flat_map(|outcome| &outcome.nodes).filter(|node| of(node)).count()
    };
    let both = |values: Vec<f64>| format!("{:.1} ({:.1})", median(values.clone()), most(&values));
    let mean = |values: Vec<f64>| 100.0 * values.iter().sum::<f64>() / values.len().max(1) as f64;
    let nodes = count(|_| true);
    let covered = count(Held::covered);
    let outside = count(|node| !node.flagged && node.far_outside());
    let target = most(&each(|o| 100.0 * (o.target.1 / o.target.0 - 1.0).abs()));
    let imbalance: i64 = outcomes.iter().map(|outcome| outcome.imbalance_uj).sum();
    format!(
        "| {title} | {hz} | {} | {} | {} | {} | {:.0} % | {:.0} % | {:.0} % of {nodes} | {outside} | {target:.1} % | {imbalance} | {:.1} |",
        outcomes.len(),
        both(each(Outcome::worst_function)),
        both(errors(Held::error)),
        both(errors(Held::time_error)),
        mean(each(|outcome| outcome.flagged)),
        mean(each(|outcome| outcome.wide)),
        100.0 * covered as f64 / nodes.max(1) as f64,
        median(each(|outcome| outcome.seconds)),
    )
}

/// What is worst in each run, for people who look for the cause.
pub(crate) fn details(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let worst = |node: &&Held| node.far_outside() || !node.covered() || node.error() > 10.0;
        for node in outcome.nodes.iter().filter(worst) {
            let kind = if node.is_function { "function" } else { "in the tree" };
            let mut flags = String::new();
            for (word, holds) in [
                ("flagged", node.flagged),
                ("missed", !node.covered()),
                ("far", node.far_outside()),
                ("wide", node.wide()),
            ] {
                if holds {
                    flags = flags + " " + word;
                }
            }
            let (low, high) = node.ci95;
            let _ = writeln!(
                text,
                "    seed {}: {} ({kind}): true {:.2} J, shown {:.2} ({low:.2} to {high:.2}), by time {:.2}{flags}",
                outcome.seed, node.name, node.truth, node.shown, node.by_time
            );
        }
    }
    text
}
