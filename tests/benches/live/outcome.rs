//! What a report says of each function, beside the truth: a line of the table. Leaves out programs and recording.

use super::programs::BACKGROUND;
use energy_trace_tests::powercap::meter::Truth;
use energy_trace_tests::report::{Function, Report};

/// The table's head.
pub(crate) const HEAD: &str = "| program | worst function of 5 % or more, % | of 1 % or more, % | flagged | truth in interval or bounds | unflagged, truth more than two half-widths from the middle | widest interval, ± % | by CPU time: worst, % | target's total, % | ΔµJ |\n|---|---|---|---|---|---|---|---|---|---|";

/// One function of the target: what it spent and what the report says.
struct Seen<'a> {
    /// Its part of the target's true energy.
    part: f64,
    true_uj: f64,
    told_uj: f64,
    by_time_uj: f64,
    line: Option<&'a Function>,
}

impl Seen<'_> {
    fn error_percent(&self) -> f64 {
        100.0 * (self.told_uj / self.true_uj - 1.0)
    }

    fn range(&self) -> Option<(f64, f64)> {
        let [low, high] = self.line.and_then(|line| line.bounds_uj.or(line.ci95_uj))?;
        Some((low as f64, high as f64))
    }

    fn is_flagged(&self) -> bool {
        self.line.is_some_and(|line| line.flags.iter().any(|flag| flag == "unidentified"))
    }

    fn is_inside(&self) -> bool {
        self.range().is_some_and(|(low, high)| (low..=high).contains(&self.true_uj))
    }

    /// How far the truth is from the middle of the range, in half-widths; a function that the report does not have is infinitely far.
    fn half_widths(&self) -> f64 {
        let far = |(low, high): (f64, f64)| {
            (self.true_uj - f64::midpoint(low, high)).abs() / ((high - low) / 2.0).max(1.0)
        };
        self.range().map_or(f64::INFINITY, far)
    }

    fn half_width_percent(&self) -> f64 {
        self.range().map_or(f64::INFINITY, |(low, high)| 50.0 * (high - low) / self.true_uj)
    }
}

/// The columns of a program behind its name.
pub(crate) fn line(truth: &Truth, weighted: &Report, by_time: &Report) -> String {
    let own = || truth.functions.iter().filter(|(name, _)| !name.starts_with(BACKGROUND));
    let sum: f64 = own().map(|(_, spent)| spent.uj as f64).sum();
    let all: Vec<Seen<'_>> = own()
        .map(|(name, spent)| Seen {
            part: spent.uj as f64 / sum,
            true_uj: spent.uj as f64,
            told_uj: weighted.total_uj(name, "package") as f64,
            by_time_uj: by_time.total_uj(name, "package") as f64,
            line: weighted.named(name).next(),
        })
        .filter(|seen| seen.part >= 0.01)
        .collect();
    let worst = |least: f64| {
        let errors = all.iter().filter(|seen| seen.part >= least).map(Seen::error_percent);
        errors.fold(0.0, |worst: f64, error| if error.abs() > worst.abs() { error } else { worst })
    };
    let of_all = |holds: &dyn Fn(&Seen<'_>) -> bool| {
        format!("{} of {}", all.iter().filter(|seen| holds(seen)).count(), all.len())
    };
    let beyond = all.iter().filter(|seen| !seen.is_flagged() && seen.half_widths() > 2.0).count();
    let widest = all.iter().map(Seen::half_width_percent).fold(0.0, f64::max);
    let by_time_error = |seen: &Seen<'_>| 100.0 * (seen.by_time_uj / seen.true_uj - 1.0).abs();
    let by_time_worst = all.iter().filter(|seen| seen.part >= 0.05).map(by_time_error).fold(0.0, f64::max);
    let target: i64 = weighted.ledger.iter().map(|row| row.target_uj).sum();
    let imbalance: i64 = weighted.ledger.iter().map(|row| row.imbalance_uj().abs()).sum();
    format!(
        "{:+.1} | {:+.1} | {} | {} | {beyond} | {widest:.1} | {by_time_worst:.0} | {:+.1} | {imbalance}",
        worst(0.05),
        worst(0.01),
        of_all(&|seen| seen.is_flagged()),
        of_all(&|seen| seen.is_inside()),
        100.0 * (target as f64 / sum - 1.0),
    )
}
