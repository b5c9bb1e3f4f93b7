//! The validity checks that learned watts must pass, each with a run in which it alone fails, on the virtual clock of `world.rs`.
//!
//! Without the check under test each of these runs would be split by watts that it does not show. That runs which do show watts pass all of
//! them is asked of every scenario in `accuracy_table.rs`.

use super::world::{FUNCTIONS, MS, SECOND, Stretch, World};
use energy_trace_attribution::attribute;

use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::certainty::Weights;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_tests::random::Random;
use energy_trace_tests::schema::Schema;
use serde_json::Value;

const MINUTE: u64 = 60 * SECOND;

fn attributed(stretches: Vec<Stretch>) -> (World, Profile) {
    let world = World { stretches, length: MINUTE, sockets: 1 };
    let recording = world.recording(7, 99);
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
    Stretch { cpu, from, to, function, thread: cpu / 2, watts }
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

/// Energy is split by time, the reader is told, and if `flagged` each function has bounds with the truth in them.
fn assert_by_time(world: &World, profile: &Profile, flagged: bool) {
    assert!(!weights(profile).used);
    assert!(profile.rows.iter().all(|row| row.energy == row.by_time));
    assert!(profile.diagnostics.iter().any(|found| found.code() == "model-cpu-time"));
    for (function, truth) in world.truth().into_iter().enumerate().filter(|(_, truth)| *truth > 0.0) {
        let rows = rows_of(profile, function);
        let bounds = profile.certainty.of(&rows, |_| true, energy_of(profile, &rows)).bounds;
        assert_eq!(bounds.is_some(), flagged, "function {function}");
        let inside = bounds.is_none_or(|(low, high)| low.as_joules() <= truth && truth <= high.as_joules());
        assert!(inside, "function {function}: {truth} J in {bounds:?}");
    }
}

/// Functions that run at the same times, to the nanosecond, have no watts of their own, though the stranger's predict well.
#[test]
fn times_that_depend_on_each_other() {
    let (world, profile) = attributed(always_together(&mut Random(3)));
    assert_eq!(closed(&profile), ["condition_number"], "{:?}", weights(&profile));
    assert_by_time(&world, &profile, true);
}

/// Functions that draw now this and now that have no watts, though their mean and those of others predict well.
#[test]
fn watts_that_do_not_last() {
    let (world, profile) = attributed(inconstant(&mut Random(3)));
    assert_eq!(closed(&profile), ["split_half"], "{:?}", weights(&profile));
    assert_by_time(&world, &profile, true);
}

/// Small functions and strangers have one mean power together. That it differs from half to half fails no check: the others' watts last.
#[test]
fn what_is_small_may_differ() {
    let (world, profile) = attributed(small_ones_that_differ(&mut Random(3)));
    assert_eq!(closed(&profile), [""; 0], "{:?}", weights(&profile));
    assert!(weights(&profile).used);
    for (function, truth) in world.truth().into_iter().enumerate().take(2) {
        let energy = energy_of(&profile, &rows_of(&profile, function)).as_joules();
        assert!((energy / truth - 1.0).abs() < 0.02, "function {function}: {energy} J of {truth}");
    }
}

/// Watts that are all the same predict no better than their mean; they are known, and so nothing is flagged.
#[test]
fn watts_that_gain_nothing() {
    let (world, profile) = attributed(all_equal(&mut Random(3)));
    assert_eq!(closed(&profile), ["cross_validation"], "{:?}", weights(&profile));
    assert_by_time(&world, &profile, false);
}

/// JSON has each check's value, its limit and whether it passed, as the schema says; an unbounded value is null. The table with `-v` names them.
#[test]
fn reports_say_what_was_found() {
    let (_, profile) = attributed(always_together(&mut Random(3)));
    let mut out = Vec::new();
    json::write(&mut out, &profile, &JsonOptions::default()).unwrap();
    let report: Value = serde_json::from_slice(&out).unwrap();
    let schema = Schema::parse(include_str!("../../../tracer/report/data/report-1.schema.json")).unwrap();
    let errors = schema.errors(&report);
    assert!(errors.is_empty(), "{errors:?}");
    let found = &report["ledger"][0]["weights"];
    assert_eq!(found["used"], false);
    assert_eq!(found["validity"]["condition_number"]["value"], Value::Null);
    assert_eq!(found["validity"]["condition_number"]["passed"], false);
    assert_eq!(found["validity"]["cross_validation"]["limit"], 2.0);
    assert!(found["validity"]["cross_validation"]["value"].as_f64().unwrap() > 2.0);
    let mut out = Vec::new();
    let options = TableOptions { verbose: true, ..TableOptions::default() };
    table::write(&mut out, &profile, &options).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("package-0: not used: a check failed;"), "{text}");
    assert!(text.contains("condition number unbounded (required: less than 30, failed)"), "{text}");
    assert!(text.contains("(the times of some functions depend on each other)"), "{text}");
}
