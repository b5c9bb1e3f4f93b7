//! The table of worlds is true: what stands in the repository is what the attribution of today gives, and what it promises.
//!
//! `cargo xtask bench accuracy --write` makes the table anew. Leaves out the simulator itself (`worlds.rs`).

use energy_trace_scenarios::worlds::catalogue::{Entry, all};
use energy_trace_scenarios::worlds::recording::Recorder;
use energy_trace_scenarios::worlds::run;
use energy_trace_scenarios::worlds::summary::Summary;
use energy_trace_scenarios::worlds::table::{HEAD, details, line};
use std::collections::BTreeMap;
use std::path::Path;

const RATES: [u64; 2] = [99, 499];
/// Runs that every test run repeats; the others are slow.
const QUICK: [(&str, u64); 3] = [("W1h", 499), ("W2b", 99), ("W6g", 99)];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn recorded() -> BTreeMap<String, Vec<Summary>> {
    serde_json::from_str(&text("tests/fixtures/worlds_table.json")).unwrap()
}

fn worlds() -> impl Iterator<Item = (Entry, u64)> {
    all().into_iter().flat_map(|entry| RATES.map(|hz| (entry, hz)))
}

fn key(entry: &Entry, hz: u64) -> String {
    format!("{} {hz}", entry.name)
}

/// The table is what the recorded runs say, and the page shows it.
#[test]
fn table_is_what_was_recorded() {
    let recorded = recorded();
    let mut table = HEAD.to_owned();
    for (entry, hz) in worlds() {
        let runs = recorded[&key(&entry, hz)].iter().cloned();
        let (held_out, seen): (Vec<_>, Vec<_>) = runs.partition(|run| entry.is_held_out(run.seed));
        table += &(line(&entry.title(), hz, &seen, &held_out) + "\n");
    }
    assert_eq!(super::accuracy_table::kept_table("worlds"), table);
}

/// Two numbers are one but for the last digits, which another machine's logarithm may change.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 + 0.01 * other.abs()
}

/// Attribution gives today what was recorded.
fn repeat(wanted: impl Fn(&Entry, u64) -> bool) {
    let recorded = recorded();
    for (entry, hz) in worlds().filter(|(entry, hz)| wanted(entry, *hz)) {
        let before = &recorded[&key(&entry, hz)][0];
        let outcome = run(&entry, Recorder::usual(hz), before.seed);
        let now = Summary::from(&outcome);
        let pairs = [
            (now.worst_function, before.worst_function),
            (now.nodes.0, before.nodes.0),
            (now.nodes.1, before.nodes.1),
            (now.by_time.0, before.by_time.0),
            (now.flagged, before.flagged),
            (now.wide, before.wide),
            (now.target, before.target),
        ];
        let close = pairs.iter().all(|&(now, before)| same(now, before)) && now.count == before.count;
        let name = key(&entry, hz);
        assert!(
            close,
            "{name}: {now:?} was {before:?}; `cargo xtask bench accuracy --write`\n{}",
            details(&[outcome])
        );
        assert_eq!(now.imbalance_uj, 0, "{name}");
    }
}

#[test]
fn recorded_runs_are_still_true() {
    repeat(|entry, hz| QUICK.contains(&(entry.name, hz)));
}

#[test]
#[ignore = "slow: cargo xtask test --all"]
fn all_recorded_runs_are_still_true() {
    repeat(|entry, hz| !QUICK.contains(&(entry.name, hz)));
}

/// Energy is conserved in every run, held out or not, to the microjoule.
#[test]
fn nothing_is_lost() {
    let recorded = recorded();
    for (entry, hz) in worlds() {
        let runs = &recorded[&key(&entry, hz)];
        assert!(!runs.is_empty() && runs.len() <= entry.most_seeds, "{}", entry.name);
        assert!(runs.iter().all(|run| run.imbalance_uj == 0), "{}", entry.name);
    }
}
