//! The table of worlds: medians and extremes over runs, as Markdown.
//!
//! Leaves out how the numbers come about (`measure.rs`).

use super::measure::{Held, Outcome};
use super::summary::Summary;
use std::fmt::Write as _;

/// The table's head.
pub const HEAD: &str = "\
| world | Hz | worst unflagged function ≥ 5 %: median (most) | nodes ≥ 1 %: median (most) | by CPU time: median (most) | flagged | wide | truth in interval or bounds | unflagged and off by > 2 half-widths | target | ΔµJ | held out: worst function, nodes, inside, off |
|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// The middle of some values; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(0.0);
    f64::midpoint(middle(values.len().saturating_sub(1) / 2), middle(values.len() / 2))
}

/// The largest of some values; 0 of none.
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Several runs of one world at one sampling rate.
struct Runs<'a>(&'a [Summary]);

impl Runs<'_> {
    fn each(&self, of: fn(&Summary) -> f64) -> Vec<f64> {
        self.0.iter().map(of).collect()
    }

    fn sum(&self, of: fn(&Summary) -> usize) -> usize {
        self.0.iter().map(of).sum()
    }

    fn mean(&self, of: fn(&Summary) -> f64) -> f64 {
        self.each(of).iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    fn worst(&self) -> String {
        let worst = self.each(|run| run.worst_function);
        format!("{:.1} ({:.1})", median(worst.clone()), most(&worst))
    }

    fn errors(&self, of: fn(&Summary) -> (f64, f64), middle: fn(&Summary) -> f64) -> String {
        let largest: Vec<f64> = self.0.iter().map(|run| of(run).1).collect();
        format!("{:.1} ({:.1})", median(self.each(middle)), most(&largest))
    }

    /// Part of the nodes with the truth inside, rounded down.
    fn inside(&self) -> String {
        let (covered, count) = (self.sum(|run| run.covered), self.sum(|run| run.count));
        format!("{} % of {count}", 100 * covered / count.max(1))
    }
}

/// One line: a world at one sampling rate, the runs that may be looked at and those that are held out; either may be none.
pub fn line(title: &str, hz: u64, seen: &[Summary], held_out: &[Summary]) -> String {
    let runs = Runs(seen);
    let imbalance: i64 = seen.iter().chain(held_out).map(|run| run.imbalance_uj).sum();
    let shown = if seen.is_empty() {
        "– | – | – | – | – | – | – | –".to_owned()
    } else {
        format!(
            "{} | {} | {} | {:.0} % | {:.0} % | {} | {} | {:.1} %",
            runs.worst(),
            runs.errors(|run| run.nodes, |run| run.nodes.0),
            runs.errors(|run| run.by_time, |run| run.by_time.0),
            runs.mean(|run| run.flagged),
            runs.mean(|run| run.wide),
            runs.inside(),
            runs.sum(|run| run.far_outside),
            most(&runs.each(|run| run.target)),
        )
    };
    let unseen = Runs(held_out);
    let held_out = if held_out.is_empty() {
        "–".to_owned()
    } else {
        let nodes = unseen.errors(|run| run.nodes, |run| run.nodes.0);
        format!("{}, {nodes}, {}, {}", unseen.worst(), unseen.inside(), unseen.sum(|run| run.far_outside))
    };
    format!("| {title} | {hz} | {shown} | {imbalance} | {held_out} |")
}

/// What is worst in each run, for people who look for the cause.
pub fn details(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let _ = writeln!(text, "    seed {}: {:.2} s of CPU", outcome.seed, outcome.seconds);
        let ((truth, shown), (low, high)) = (outcome.target, outcome.target_ci95);
        let held = if (low..=high).contains(&truth) { "" } else { ", missed" };
        let _ = writeln!(text, "    all: true {truth:.2} J, shown {shown:.2} ({low:.2} to {high:.2}){held}");
        let worst = |node: &&Held| node.far_outside() || !node.covered() || node.error() > 10.0;
        for node in outcome.nodes.iter().filter(worst) {
            let _ = writeln!(text, "    {}", detail(node));
        }
    }
    text
}

fn detail(node: &Held) -> String {
    let words = [
        ("flagged", node.flagged),
        ("missed", !node.covered()),
        ("far", node.far_outside()),
        ("wide", node.wide()),
    ];
    let words: Vec<&str> = words.into_iter().filter(|(_, holds)| *holds).map(|(word, _)| word).collect();
    let kind = if node.is_function { "function" } else { "in the tree" };
    let Held { name, truth, shown, by_time, ci95: (low, high), .. } = node;
    format!(
        "{name} ({kind}): true {truth:.2} J, shown {shown:.2} ({low:.2} to {high:.2}), by time {by_time:.2} {}",
        words.join(" ")
    )
}
