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
use energy_trace_scenarios::worlds::measure;
use figures::{Figures, Sums};
use options::Options;
use rows::Row;

/// A case with one of its seeds.
struct Job<'a> {
    case: &'a Case,
    seed: u64,
}

/// What each row gives in a job, in their order.
fn figures_of(job: &Job<'_>, rows: &[Row]) -> Vec<Figures> {
    let (recording, truth) = job.case.record(job.seed);
    let of = |row: &Row| {
        Figures::of(&measure::without(&recording, &truth, (&row.options(), row.left_out), job.seed))
    };
    let figures = rows.iter().map(of).collect();
    eprintln!("judge: {} {}", job.case.name, job.seed);
    figures
}

/// All figures, by group and row: of each run one.
fn judge(cases: &[Case], rows: &[Row], seeds: &[u64]) -> Vec<(Group, Vec<Sums>)> {
    let jobs: Vec<Job<'_>> =
        cases.iter().flat_map(|case| seeds.iter().map(move |&seed| Job { case, seed })).collect();
    let found = map(&jobs, usize::MAX, |job| figures_of(job, rows));
    let mut groups: Vec<(Group, Vec<Sums>)> = vec![];
    for (job, figures) in jobs.iter().zip(found) {
        let place = groups.iter().position(|(group, _)| *group == job.case.group).unwrap_or_else(|| {
            groups.push((job.case.group, rows.iter().map(|_| Sums::default()).collect()));
            groups.len() - 1
        });
        groups[place].1.iter_mut().zip(figures).for_each(|(sums, of_run)| sums.add(of_run));
    }
    groups.sort_by_key(|(group, _)| *group);
    groups
}

fn main() {
    let options = Options::parse();
    let (cases, rows) = (cases::all(&options), rows::all(&options.without));
    let seeds: Vec<u64> = (options.from..options.from + options.seeds).collect();
    let groups = judge(&cases, &rows, &seeds);
    let text = table::text(&rows, &groups, options.seeds);
    print!("{text}");
    if let Some(folder) = &options.write
        && let Err(error) = std::fs::write(folder.join("judge.md"), text)
    {
        eprintln!("judge: cannot write the table: {error}");
    }
}
