//! The accuracy benchmark: every world and every scenario through the shipped attribution, many seeds, beside a split by CPU time alone.
//!
//! `cargo xtask bench accuracy`, or `cargo bench -p energy-trace-scenarios --bench accuracy -- --world W3`. Links the pure packages alone.
//! Leaves out the comparison with the tables in the repository: that is a test (`accuracy_table.rs`, `worlds_table.rs`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod curves;
mod options;
mod parallel;

use energy_trace_scenarios::worlds::catalogue::Entry;
use energy_trace_scenarios::worlds::measure::Outcome;
use energy_trace_scenarios::worlds::summary::Summary;
use energy_trace_scenarios::worlds::table::{HEAD, details, line};
use energy_trace_scenarios::{cpu, worlds};
use options::Options;
use std::collections::BTreeMap;
use std::path::Path;

/// One world at one sampling rate, with its seeds.
struct Line {
    entry: Entry,
    hz: u64,
    seeds: Vec<u64>,
}

impl Line {
    /// Its line of the table.
    fn text(&self, summaries: &[Summary]) -> String {
        let (held_out, seen): (Vec<_>, Vec<_>) =
            summaries.iter().cloned().partition(|run| self.entry.is_held_out(run.seed));
        line(&self.entry.title(), self.hz, &seen, &held_out)
    }
}

fn lines(options: &Options) -> Vec<Line> {
    let mut lines = vec![];
    for entry in worlds::catalogue::all().into_iter().filter(|entry| options.wants(entry.name)) {
        let seeds: Vec<u64> = options
            .seeds(6)
            .take(entry.most_seeds)
            .filter(|seed| options.shows(entry.is_held_out(*seed)))
            .collect();
        let of_rate = |&hz: &u64| Line { entry, hz, seeds: seeds.clone() };
        lines.extend(options.rates().iter().map(of_rate).filter(|line| !line.seeds.is_empty()));
    }
    lines
}

/// Runs the worlds, printing their table; what is kept of each line.
fn run_worlds(options: &Options) -> (String, BTreeMap<String, Vec<Summary>>) {
    let lines = lines(options);
    if !lines.is_empty() {
        print!("{HEAD}");
    }
    let one = |line: &Line, seed: u64| {
        let recorder = options.recorder(line.hz);
        worlds::run(&line.entry, recorder, seed)
    };
    let show = |line: &Line, outcomes: &[Outcome]| {
        println!("{}", line.text(&outcomes.iter().map(Summary::from).collect::<Vec<_>>()));
        if options.details {
            print!("{}", details(outcomes));
        }
    };
    let outcomes = parallel::each(&lines, |line| &line.seeds, one, show);
    let (mut text, mut all) = (HEAD.to_owned(), BTreeMap::new());
    for (line, outcomes) in lines.iter().zip(outcomes) {
        let summaries: Vec<Summary> = outcomes.iter().map(Summary::from).collect();
        text += &(line.text(&summaries) + "\n");
        all.insert(format!("{} {}", line.entry.name, line.hz), summaries);
    }
    (text, all)
}

/// The scenarios that draw what the attribution assumes: a cheap check that nothing gets lost.
fn run_scenarios(options: &Options) -> (String, BTreeMap<&'static str, Vec<cpu::measure::Outcome>>) {
    let (mut text, mut all) = (cpu::table::HEAD.to_owned(), BTreeMap::new());
    for scenario in cpu::scenarios::all().into_iter().filter(|scenario| options.wants(scenario.name)) {
        if all.is_empty() {
            print!("\n{text}");
        }
        let outcomes: Vec<_> = options.seeds(20).map(|seed| cpu::measure::run(&scenario, seed)).collect();
        let line = cpu::table::line(&scenario, &outcomes);
        println!("{line}");
        text += &(line + "\n");
        all.insert(scenario.name, outcomes);
    }
    (text, all)
}

/// Writes a table and its numbers.
fn keep<K: serde::Serialize + Ord, T: serde::Serialize>(
    folder: &Path,
    name: &str,
    text: &str,
    all: &BTreeMap<K, Vec<T>>,
) {
    let json = serde_json::to_string(all).unwrap_or_default() + "\n";
    for (extension, content) in [("md", text), ("json", &json)] {
        let path = folder.join(name).with_extension(extension);
        if let Err(error) = std::fs::write(&path, content) {
            println!("cannot write {}: {error}", path.display());
        }
    }
}

fn main() {
    let options = Options::parse();
    if options.curves {
        return curves::show(&options);
    }
    let (text, all) = run_worlds(&options);
    if let Some(folder) = options.write.as_deref().filter(|_| !all.is_empty()) {
        keep(folder, "worlds_table", &text, &all);
    }
    if options.held_out {
        return;
    }
    let (text, all) = run_scenarios(&options);
    if let Some(folder) = options.write.as_deref().filter(|_| !all.is_empty()) {
        keep(folder, "accuracy_table", &text, &all);
    }
}
