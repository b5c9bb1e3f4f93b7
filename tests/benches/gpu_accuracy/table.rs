//! The benchmark's table: medians and extremes over runs, as Markdown and for JSON.

use super::measure::{Run, TIERS};
use energy_trace_scenarios::gpu::outcome::Tier;
use serde::Serialize;

/// The table's head.
pub(crate) const HEAD: &str = "\
| tier | meter | loop | error where not flagged: mean %, worst % (most) | flagged stacks | all stacks: mean, worst % | by duration in a step: mean, worst % | by launch count: mean, worst % | truth in interval or bounds | ΔµJ | J for captured work |
|---|---|---|---|---|---|---|---|---|---|---|
";

/// A line of it, with the runs that it was made of.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) tier: Tier,
    pub(crate) meter: String,
    pub(crate) workload: String,
    pub(crate) live: bool,
    pub(crate) runs: Vec<Run>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length => f64::midpoint(values[(length - 1) / 2], values[length / 2]),
    }
}

impl Line {
    fn pair(&self, of: impl Fn(&Run) -> Option<(f64, f64)>) -> Option<(f64, f64, f64)> {
        let all: Vec<(f64, f64)> = self.runs.iter().filter_map(of).collect();
        let most = all.iter().map(|pair| pair.1).reduce(f64::max)?;
        Some((
            median(all.iter().map(|pair| pair.0).collect()),
            median(all.iter().map(|pair| pair.1).collect()),
            most,
        ))
    }

    /// Mean and worst error where nothing was flagged, medians over the runs.
    pub(crate) fn known(&self) -> Option<(f64, f64)> {
        self.pair(|run| run.known).map(|(mean, worst, _)| (mean, worst))
    }

    /// As Markdown.
    pub(crate) fn text(&self) -> String {
        let sum = |of: fn(&Run) -> usize| self.runs.iter().map(of).sum::<usize>();
        let known = self.pair(|run| run.known).map_or_else(
            || "all flagged".to_owned(),
            |(mean, worst, most)| format!("{mean:.1}, {worst:.1} ({most:.1})"),
        );
        let shown = |of: fn(&Run) -> (f64, f64)| {
            let (mean, worst, _) = self.pair(|run| Some(of(run))).unwrap_or_default();
            format!("{mean:.1}, {worst:.1}")
        };
        let imbalance: i64 = self.runs.iter().map(|run| run.imbalance_uj).sum();
        let captured = self.runs.iter().filter_map(|run| run.captured).reduce(f64::max);
        format!(
            "| {} | {} | {} | {known} | {} of {} | {} | {} | {} | {} of {} | {imbalance} | {} |",
            self.tier.word(),
            self.meter,
            self.workload,
            sum(|run| run.flagged),
            sum(|run| run.stacks),
            shown(|run| run.all),
            shown(|run| run.by_duration),
            shown(|run| run.by_count),
            sum(|run| run.covered),
            sum(|run| run.stacks),
            captured.map_or_else(|| "–".to_owned(), |joules| format!("{joules:.6}")),
        )
    }
}

/// How the lines stand to what is aimed at.
pub(crate) fn goals(lines: &[Line]) -> String {
    let mut text = String::new();
    for tier in TIERS {
        let of_tier: Vec<(f64, f64)> =
            lines.iter().filter(|line| line.tier == tier && !line.live).filter_map(Line::known).collect();
        if of_tier.is_empty() {
            continue;
        }
        let (mean, worst) = tier.goal();
        let within = of_tier.iter().filter(|known| known.0 <= mean && known.1 <= worst).count();
        text.push_str(&format!(
            "Goal of the {} tier: at most {mean} % on average and {worst} % at worst where not flagged; {within} of {} lines are within.\n",
            tier.word(),
            of_tier.len()
        ));
    }
    text
}

/// Writes all runs as JSON.
pub(crate) fn write(lines: &[Line], file: &str) {
    let json = serde_json::to_string_pretty(lines).unwrap_or_default();
    if let Err(error) = std::fs::write(file, json + "\n") {
        println!("cannot write {file}: {error}");
    }
}
