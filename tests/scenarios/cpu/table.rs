//! The benchmark's table: medians and extremes over seeds, as Markdown.

use super::measure::Outcome;
use super::scenarios::{Asked, Scenario};
use std::fmt::Write as _;

/// The table's head.
pub const HEAD: &str = "\
| scenario | asked | TV % | worst function %, median (most) | by CPU time: TV %, worst % | worst process % | in 95 % interval or bounds | flagged | truth in bounds | ΔµJ |
|---|---|---|---|---|---|---|---|---|---|
";

/// One line of the table.
pub fn line(scenario: &Scenario, outcomes: &[Outcome]) -> String {
    let median = |of: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        f64::midpoint(low, high)
    };
    let most = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let asked = match scenario.asked {
        Asked::Identifiable => "joules".to_owned(),
        Asked::Unidentifiable => "a flag".to_owned(),
        Asked::Hostile => "honesty".to_owned(),
        Asked::Parent { percent } => {
            let least = outcomes.iter().map(|outcome| outcome.right_parent).fold(100.0, f64::min);
            format!("{percent} % to the right parent: {:.1} ({least:.1})", median(|o| o.right_parent))
        }
    };
    let flagged = outcomes.iter().filter(|outcome| outcome.bounded > 0).count();
    let (bounded, in_bounds) = (sum(|o| o.bounded), sum(|o| o.in_bounds));
    let share = |part: u64, whole: u64| format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64);
    let bounds = if bounded == 0 { "–".to_owned() } else { share(in_bounds, bounded) };
    let imbalance: i64 = outcomes.iter().map(|outcome| outcome.imbalance_uj).sum();
    let mut line = String::new();
    let _ = write!(
        line,
        "| {} {} | {asked} | {:.2} | {:.1} ({:.1}) | {:.1}, {:.0} | {:.1} | {} | {} | {bounds} | {imbalance} |",
        scenario.name,
        scenario.what,
        median(|o| o.tv),
        median(|o| o.worst),
        most(|o| o.worst),
        median(|o| o.time_tv),
        median(|o| o.time_worst),
        median(|o| o.process),
        share(sum(|o| o.covered), sum(|o| o.functions)),
        share(flagged as u64, outcomes.len() as u64),
    );
    line
}
