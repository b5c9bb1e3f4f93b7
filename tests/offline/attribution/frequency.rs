//! Frequencies of CPUs as weights: what a slow and a fast CPU draw at the same time, on the virtual clock of `scenarios/cpu`.
//!
//! Leaves out clocks that all swing together and that swing one by one, which the accuracy benchmark has (B7b, B7c).

use super::world::{self, FUNCTIONS, stretch, truth};
use energy_trace_attribution::attribute;
use energy_trace_scenarios::cpu::engine::{MS, SECOND, Who, World};

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::KiloHertz;
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_tests::random::Random;
use energy_trace_tests::report::schema_errors;
use serde_json::Value;

const MINUTE: u64 = 60 * SECOND;
/// CPU 0 at 1.2 GHz, CPU 2 of the same socket at 3 GHz.
const CLOCKS: [(u32, u32); 2] = [(0, 1_200_000), (2, 3_000_000)];

/// Two threads that go through the three functions at random, one on each CPU; watts are those of the functions times (f / 3 GHz) to this
/// power.
fn world(exponent: f64) -> World {
    let mut random = Random(5);
    let mut stretches = vec![];
    for (cpu, khz) in CLOCKS {
        let speed = (f64::from(khz) / 3e6).powf(exponent);
        let mut from = 0;
        while from < MINUTE {
            let to = (from + random.around(60 * MS, 40 * MS)).min(MINUTE);
            let function = random.below(3) as usize;
            let watts = FUNCTIONS[function] * speed;
            stretches.push(stretch(cpu, from, to, cpu / 2, Some(function), watts));
            from = to;
        }
    }
    world::world(stretches, MINUTE, 1, 199)
}

/// What is recorded of it, with the clocks of both CPUs or without.
fn recording(world: &World, clocks: bool) -> Recording {
    let mut recording = world::recording(world, 7);
    if clocks {
        let since = recording.header.anchor.ktime;
        let one = |(cpu, khz)| (CpuId::new(cpu), vec![(since, KiloHertz::from_khz(khz))]);
        recording.clocks = CLOCKS.map(one).into();
    }
    recording
}

/// Joules of each thread.
fn by_thread(profile: &Profile) -> [f64; 2] {
    let mut joules = [0.0; 2];
    for row in &profile.rows {
        joules[row.thread.index()] += row.energy[DomainClass::Package].as_joules();
    }
    joules
}

/// By how many percent each thread's joules are wrong.
fn errors(world: &World, profile: &Profile) -> [f64; 2] {
    let mut truth = [0.0; 2];
    for stretch in &world.stretches {
        let (Who::Target { thread, .. }, Some(watts)) = (stretch.who, stretch.watts) else { continue };
        truth[thread as usize] += watts * (stretch.to - stretch.from) as f64 / 1e9;
    }
    let charged = by_thread(profile);
    std::array::from_fn(|thread| 100.0 * (charged[thread] / truth[thread] - 1.0))
}

fn exponent(profile: &Profile) -> Option<f64> {
    profile.certainty.domains[0].weights.unwrap().frequency
}

/// The thread on the slow CPU draws a tenth of what the other one does in the same functions: with the clocks recorded each has its joules
/// within 3 %, and the exponent is found; without them the slow thread has several times its own.
#[test]
fn a_slow_and_a_fast_cpu() {
    let world = world(2.5);
    let profile = attribute(&recording(&world, true), &Options::default());
    let truth: f64 = truth(&world).iter().sum();
    let charged: f64 = by_thread(&profile).iter().sum();
    assert!((charged / truth - 1.0).abs() < 0.002, "{charged} of {truth} J");
    let with = errors(&world, &profile);
    assert!(with.iter().all(|error| error.abs() < 3.0), "{with:?}");
    assert!(exponent(&profile).is_some_and(|found| (found - 2.5).abs() < 0.1), "{:?}", exponent(&profile));
    let without = attribute(&recording(&world, false), &Options::default());
    assert!(errors(&world, &without)[0] > 100.0 && exponent(&without).is_none());
}

/// Where power does not go with the clock, recorded clocks change no joule, and the report says so.
#[test]
fn clocks_that_explain_nothing() {
    let world = world(0.0);
    let (with, without) = (
        attribute(&recording(&world, true), &Options::default()),
        attribute(&recording(&world, false), &Options::default()),
    );
    assert_eq!((exponent(&with), exponent(&without)), (Some(0.0), None));
    assert_eq!(with.rows, without.rows);
}

/// A steady clock, one that is read once, and readings of nothing are no clocks to weigh by.
#[test]
fn clocks_without_a_difference() {
    let world = world(0.0);
    let mut recording = recording(&world, true);
    let before = attribute(&recording, &Options::default()).rows;
    for nonsense in [0, 1_200_000, u32::MAX] {
        let read = |at| (KtimeNs::from_ns(at), KiloHertz::from_khz(nonsense));
        recording.clocks = CLOCKS.map(|(cpu, _)| (CpuId::new(cpu), vec![read(0), read(u64::MAX)])).into();
        let profile = attribute(&recording, &Options::default());
        assert_eq!((profile.rows.as_slice(), exponent(&profile)), (before.as_slice(), None));
    }
}

/// JSON has the exponent, as its schema says, and the table with `-v` names it.
#[test]
fn reports_say_the_exponent() {
    let recording = recording(&world(2.5), true);
    let profile = attribute(&recording, &Options::default());
    let mut out = Vec::new();
    json::write(&mut out, &profile, &JsonOptions::default()).unwrap();
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    assert_eq!(report["ledger"][0]["weights"]["frequency"].as_f64(), exponent(&profile));
    let mut out = Vec::new();
    let options = TableOptions { verbose: true, ..TableOptions::default() };
    table::write(&mut out, &profile, &options).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("; power grows with CPU frequency to the power of 2"), "{text}");
}
