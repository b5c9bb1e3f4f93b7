//! The judge: what each part of the attribution is worth, on one table, beside attribution with all of them.
//!
//! `cargo xtask bench judge`, or with traces at hand `cargo bench -p energy-trace-scenarios --bench judge -- FOLDER`. Each recording is made once and
//! attributed with every part left out, so that rows differ by the part alone. The same seeds give the same figures, but for times. Leaves out
//! GPUs, and whose work it is.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod cases;
mod figures;
mod options;
mod rows;
mod table;

use cases::{Case, Group};
use energy_trace_cpu_time::numerics::parallel::map;
use energy_trace_scenarios::worlds::measure::{self, Held, Outcome};
use figures::{Figures, Sums};
use options::Options;
use rows::Row;

/// What each row gives in a case, in their order.
fn figures_of(case: &Case, rows: &[Row], seed: u64) -> Vec<Figures> {
    let (recording, truth) = case.record(seed);
    let of = |row: &Row| {
        let outcome = measure::without(&recording, &truth, (&row.options(), row.left_out), seed);
        if row.lines.is_none() {
            say_far(case, &row.name, &outcome);
        }
        Figures::of(&case.name, &outcome)
    };
    let figures = rows.iter().map(of).collect();
    eprintln!("judge: {}, seed {seed}", case.title());
    figures
}

/// Names the nodes that are not flagged and far off.
fn say_far(case: &Case, row: &str, outcome: &Outcome) {
    for Held { name, shown, truth, ci95, .. } in outcome.nodes.iter().filter(|node| node.is_far()).take(5) {
        let (low, high) = ci95;
        let title = case.title();
        eprintln!(
            "judge: far, {row}: {title}: {name}: {shown:.2} J ({low:.2} to {high:.2}), {truth:.2} J true"
        );
    }
}

/// What is found so far: of each group each row's figures.
type Found = Vec<(Group, Vec<Sums>)>;

/// Adds a run of each case.
fn add_seed(found: &mut Found, cases: &[Case], rows: &[Row], seed: u64) {
    let runs = map(cases, usize::MAX, |case| figures_of(case, rows, seed));
    for (case, figures) in cases.iter().zip(runs) {
        let place = found.iter().position(|(group, _)| *group == case.group).unwrap_or_else(|| {
            found.push((case.group, rows.iter().map(|_| Sums::default()).collect()));
            found.len() - 1
        });
        found[place].1.iter_mut().zip(figures).for_each(|(sums, of_run)| sums.add(of_run));
    }
    found.sort_by_key(|(group, _)| *group);
}

fn main() {
    let options = Options::parse();
    let (cases, rows) = (cases::all(&options), rows::all(&options.without));
    let (mut found, mut text) = (vec![], String::new());
    // Seed by seed, so that who does not wait for all has a table of some.
    for number in 0..options.seeds {
        add_seed(&mut found, &cases, &rows, options.from + number);
        text = table::text(&rows, &found, number + 1);
        if let Some(folder) = &options.write
            && let Err(error) = std::fs::write(folder.join("judge.md"), &text)
        {
            eprintln!("judge: cannot write the table: {error}");
        }
    }
    print!("{text}");
}
