//! Runs that do not show what functions draw, and runs that do: what is refused, flagged and said, on the virtual clock of `scenarios/cpu`.
//!
//! Leaves out how far joules are off (`accuracy.rs`, `accuracy_table.rs`).

use super::world::{self, FUNCTIONS, stretch, truth};
use energy_trace_attribution::attribute;
use energy_trace_scenarios::cpu::engine::{MS, SECOND, Stretch, World};

use energy_trace_certainty::HowSure as _;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::certainty::Weights;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_tests::random::Random;
use energy_trace_tests::report::schema_errors;
use serde_json::Value;

const MINUTE: u64 = 60 * SECOND;

fn attributed(stretches: Vec<Stretch>) -> (World, Profile) {
    let world = world::world(stretches, MINUTE, 1, 99);
    let recording = world::recording(&world, 7);
    let profile = attribute(&recording, &Options::default());
    (world, profile)
}

fn weights(profile: &Profile) -> Weights {
    profile.certainty.domains[0].weights.unwrap()
}

/// The checks that failed.
fn closed(profile: &Profile) -> Vec<&'static str> {
    let checks = weights(profile).validity.each();
    checks.into_iter().filter(|check| !check.passed).map(|check| check.check.name()).collect()
}

fn run(cpu: u32, from: u64, to: u64, function: Option<usize>, watts: f64) -> Stretch {
    stretch(cpu, from, to, cpu / 2, function, watts)
}

/// Two threads that always run together, one function each, by turns with a stranger of 40 W.
fn always_together(random: &mut Random) -> Vec<Stretch> {
    let (mut stretches, mut from) = (vec![], 0);
    while from < MINUTE {
        let middle = (from + random.around(300 * MS, 100 * MS)).min(MINUTE);
        let to = (middle + random.around(150 * MS, 100 * MS)).min(MINUTE);
        stretches.push(run(0, from, middle, Some(0), FUNCTIONS[0]));
        stretches.push(run(2, from, middle, Some(1), FUNCTIONS[1]));
        stretches.push(run(0, middle, to, None, FUNCTIONS[2]));
        from = to;
    }
    stretches.sort_by_key(|stretch| stretch.cpu);
    stretches
}

/// One thread whose first two functions change their watts every half second, beside a third of 40 W that does not.
fn inconstant(random: &mut Random) -> Vec<Stretch> {
    let (mut stretches, mut from) = (vec![], 0);
    let mut next = 0;
    while from < MINUTE {
        let half = from / (SECOND / 2);
        let to = (from + random.around(120 * MS, 60 * MS)).min((half + 1) * SECOND / 2);
        let watts = [[5.0, 20.0, 40.0], [20.0, 5.0, 40.0]][(half % 2) as usize][next];
        stretches.push(run(0, from, to, Some(next), watts));
        (from, next) = (to, (next + 1) % 3);
    }
    stretches
}

/// One thread, three functions of 10 W.
fn all_equal(random: &mut Random) -> Vec<Stretch> {
    let (mut stretches, mut from) = (vec![], 0);
    while from < MINUTE {
        let to = (from + random.around(100 * MS, 60 * MS)).min(MINUTE);
        stretches.push(run(0, from, to, Some(random.below(3) as usize), 10.0));
        from = to;
    }
    stretches
}

/// Two functions of 5 and 15 W by turns. What is too small for watts of its own differs between the halves of the run: 80 ms of a 40 W function
/// in one of them, 80 ms of a stranger that draws nothing in the other, every ten seconds.
fn small_ones_that_differ(random: &mut Random) -> Vec<Stretch> {
    let (mut stretches, mut from) = (vec![], 0);
    let mut next = 0;
    while from < MINUTE {
        let half = from / (SECOND / 2);
        let end = (half + 1) * SECOND / 2;
        let (function, watts, length) = match half % 20 {
            4 if from % (SECOND / 2) == 0 => (None, 0.0, 80 * MS),
            11 if from % (SECOND / 2) == 0 => (Some(2), FUNCTIONS[2], 80 * MS),
            _ => (Some(next), FUNCTIONS[next], random.around(120 * MS, 60 * MS)),
        };
        let to = (from + length).min(end);
        stretches.push(run(0, from, to, function, watts));
        (from, next) = (to, (next + 1) % 2);
    }
    stretches
}

/// The rows of a function.
fn rows_of(profile: &Profile, function: usize) -> Vec<usize> {
    let of = |row: &usize| profile.rows[*row].stack.map(StackId::index) == Some(function);
    (0..profile.rows.len()).filter(of).collect()
}

fn energy_of(profile: &Profile, rows: &[usize]) -> MicroJoules {
    rows.iter().map(|&row| profile.rows[row].energy[DomainClass::Package]).sum()
}

/// Each of these functions is flagged, or none of them is, and the truth is in its interval.
fn assert_honest(world: &World, profile: &Profile, functions: &[usize], flagged: bool) {
    for &function in functions {
        let (truth, rows) = (truth(world)[function], rows_of(profile, function));
        let sure = profile.certainty.of(&rows, |_| true, energy_of(profile, &rows));
        assert_eq!(sure.bounds.is_some(), flagged, "function {function}: {sure:?}");
        let (low, high) = sure.ci95;
        let inside = low.as_joules() <= truth && truth <= high.as_joules();
        assert!(inside, "function {function}: {truth} J in {low} to {high}");
    }
}

fn is_warned(profile: &Profile, code: &str) -> bool {
    profile.diagnostics.iter().any(|found| found.code() == code)
}

/// Functions that run at the same times, to the nanosecond, have no power of their own, though the background process has one.
#[test]
fn times_that_depend_on_each_other() {
    let (world, profile) = attributed(always_together(&mut Random(3)));
    assert_honest(&world, &profile, &[0, 1], true);
}

/// Functions that draw now this and now that have no power: energy is split by time, and the reader is told.
#[test]
fn watts_that_do_not_last() {
    let (world, profile) = attributed(inconstant(&mut Random(3)));
    assert!(closed(&profile).contains(&"fluctuation"), "{:?}", weights(&profile));
    assert!(!weights(&profile).used && is_warned(&profile, "model-cpu-time"));
    assert!(profile.rows.iter().all(|row| row.energy == row.by_time));
    assert_honest(&world, &profile, &[0, 1, 2], true);
}

/// Small functions and processes that differ from one half second to the next take nothing from the large ones.
#[test]
fn what_is_small_may_differ() {
    let (world, profile) = attributed(small_ones_that_differ(&mut Random(3)));
    assert!(weights(&profile).used);
    for (function, truth) in truth(&world).into_iter().enumerate().take(2) {
        let energy = energy_of(&profile, &rows_of(&profile, function)).as_joules();
        assert!((energy / truth - 1.0).abs() < 0.02, "function {function}: {energy} J of {truth}");
    }
}

/// Powers that are all the same are known: nothing is flagged, and nothing is refused.
#[test]
fn watts_that_are_all_the_same() {
    let (world, profile) = attributed(all_equal(&mut Random(3)));
    assert_eq!(closed(&profile), [""; 0], "{:?}", weights(&profile));
    assert_honest(&world, &profile, &[0, 1, 2], false);
}

/// JSON has each check's value, its limit and whether it passed, as the schema says; an unbounded value is null. The table with `-v` names them.
#[test]
fn reports_say_what_was_found() {
    let (_, profile) = attributed(inconstant(&mut Random(3)));
    let mut out = Vec::new();
    json::write(&mut out, &profile, &JsonOptions::default()).unwrap();
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    let found = &report["ledger"][0]["weights"];
    assert_eq!(found["used"], false);
    assert_eq!(found["validity"]["fluctuation"]["passed"], false);
    assert_eq!(found["validity"]["fluctuation"]["limit"], 0.35);
    assert!(found["validity"]["fluctuation"]["value"].as_f64().unwrap() > 0.35);
    assert!(found["validity"]["lack_of_fit"]["value"].as_f64().unwrap() > 3.0);
    let mut out = Vec::new();
    let options = TableOptions { verbose: true, ..TableOptions::default() };
    table::write(&mut out, &profile, &options).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("package-0: learned power not used: it differs too much from moment to moment;"),
        "{text}"
    );
    assert!(text.contains("(required: less than 35 %, failed)"), "{text}");
    assert!(text.contains("(power differs from moment to moment while the same functions run)"), "{text}");
}
