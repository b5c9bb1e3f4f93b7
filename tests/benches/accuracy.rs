//! The accuracy benchmark: every scenario through the shipped attribution, many seeds, beside a split by CPU time alone.
//!
//! `cargo xtask bench accuracy [--from SEED] [--seeds N] [--only NAME] [--write]`. Leaves out the comparison with the table in the repository: that is
//! a test (`accuracy_table.rs`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

#[path = "../scenarios/cpu/mod.rs"]
mod cpu;

use cpu::{measure, scenarios, table};
use std::collections::BTreeMap;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut from, mut seeds, mut only, mut write) = (0, 20, None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => seeds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(seeds),
            "--from" => from = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(from),
            "--only" => only = arguments.next(),
            "--write" => write = arguments.next(),
            // What `cargo bench` adds.
            _ => {}
        }
    }
    print!("{}", table::HEAD);
    let (mut text, mut all) = (table::HEAD.to_owned(), BTreeMap::new());
    for scenario in scenarios::all() {
        if only.as_ref().is_some_and(|only| !scenario.name.starts_with(only.as_str())) {
            continue;
        }
        let outcomes: Vec<_> = (from..from + seeds).map(|seed| measure::run(&scenario, seed)).collect();
        let line = table::line(&scenario, &outcomes);
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
        all.insert(scenario.name, outcomes);
    }
    if let Some(folder) = write {
        let json = serde_json::to_string(&all).unwrap_or_default();
        let files = [("accuracy_table.md", text), ("accuracy_table.json", json + "\n")];
        for (name, content) in files {
            if let Err(error) = std::fs::write(std::path::Path::new(&folder).join(name), content) {
                println!("cannot write {folder}/{name}: {error}");
            }
        }
    }
}
