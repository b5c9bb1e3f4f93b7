//! The same work several times: how far a function's joules differ between runs, beside the interval that each run's report gives.
//!
//! Leaves out how runs are made (`main.rs`).

use super::programs::BACKGROUND;
use energy_trace_tests::powercap::meter::Truth;
use energy_trace_tests::report::Report;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What several runs say of one function, in joules.
#[derive(Default)]
struct Function {
    truth: Vec<f64>,
    told: Vec<f64>,
    intervals: Vec<(f64, f64)>,
}

/// The table of some runs of one program.
pub(crate) fn table(runs: &[(Truth, Report)]) -> String {
    let mut functions: BTreeMap<&str, Function> = BTreeMap::new();
    for (truth, report) in runs {
        let own = truth.functions.iter().filter(|(name, _)| !name.starts_with(BACKGROUND));
        for (name, spent) in own {
            let of = functions.entry(name).or_default();
            of.truth.push(spent.uj as f64 / 1e6);
            of.told.push(report.total_uj(name, "package") as f64 / 1e6);
            let range =
                report.named(name).find_map(|line| line.bounds_uj.or(line.ci95_uj)).unwrap_or_default();
            of.intervals.push((range[0] as f64 / 1e6, range[1] as f64 / 1e6));
        }
    }
    let mut text = "| function | true J: mean, spread % (SD %) | reported J: mean, spread % (SD %) | interval, ± % | holds its run's truth | holds the mean of all runs |\n|---|---|---|---|---|---|\n".to_owned();
    for (name, of) in &functions {
        let mean = mean(&of.truth);
        let half = of.intervals.iter().map(|(low, high)| 50.0 * (high - low) / mean).sum::<f64>()
            / of.intervals.len() as f64;
        let held = |truth: &dyn Fn(usize) -> f64| {
            let holds = |(at, (low, high)): (usize, &(f64, f64))| (*low..=*high).contains(&truth(at));
            of.intervals.iter().enumerate().filter(|one| holds(*one)).count()
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {half:.1} | {} of {} | {} |",
            spread(&of.truth),
            spread(&of.told),
            held(&|at| of.truth[at]),
            of.truth.len(),
            held(&|_| mean),
        );
    }
    text
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Mean, and in percent of it the range and the standard deviation.
fn spread(values: &[f64]) -> String {
    let mean = mean(values);
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = (squares / (values.len().max(2) - 1) as f64).sqrt();
    format!("{mean:.2}, {:.1} ({:.1})", 100.0 * (most - least) / mean, 100.0 * deviation / mean)
}
