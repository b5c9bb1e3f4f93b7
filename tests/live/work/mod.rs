//! Units of work: programs that count what they do, on simulated power. Needs root, BPF, /dev/fuse, two CPUs and util-linux.
//!
//! Leaves out how stretches are cut (`energy_trace_model::profile::work`).

mod called;
mod files;
mod pages;
mod printed;

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{alone_on, python, workload};
use energy_trace_tests::report::schema_errors;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Mutex, PoisonError};

/// CPU 1 is for one workload at a time.
static CPU_1: Mutex<()> = Mutex::new(());

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn simulation() -> Simulation {
    Simulation::start(&Options { sockets: 2, step_uj: 61, ..Options::default() }).unwrap()
}

/// Records `work.py` with these options and arguments, alone on CPU 1.
fn record(place: &Place, simulation: &Simulation, options: &[&str], arguments: &[&str]) -> Output {
    let _alone = CPU_1.lock().unwrap_or_else(PoisonError::into_inner);
    let sysfs = simulation.sysfs().to_str().unwrap();
    let first = ["record", "--no-svg", "--power", "powercap", "--path.sysfs", sysfs, "--idle-watts", "10"];
    let mut command = place.command(&[&first[..], options, &["--"]].concat());
    command.args(alone_on(1)).arg(counting_python()).arg(workload("work.py")).args(arguments);
    command.env(SOCKET_VARIABLE, simulation.socket()).stdin(std::process::Stdio::null()).output().unwrap()
}

/// The same: so many units, whose number stands in the file `done`, with a second of rest before and after them.
fn record_units(place: &Place, simulation: &Simulation, options: &[&str], units: &str) -> Output {
    let done = place.path("done");
    let arguments = [units, "--file", done.to_str().unwrap(), "--rest-ms", "1000"];
    let output = record(place, simulation, options, &arguments);
    assert_code(&output, 0);
    output
}

/// An interpreter that can count calls.
fn counting_python() -> PathBuf {
    interpreters::found(12..=13).last().cloned().unwrap_or_else(python)
}

fn json(place: &Place, options: &[&str]) -> Value {
    let output = place.run(&[&["report", "--format", "json"][..], options].concat());
    assert_code(&output, 0);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    report
}

/// The work of this name. Its energy and the rest are the ledger's target of each class, and units times joules per unit its energy, to the
/// microjoule; its steps are in order and no more than it.
fn work(report: &Value, name: &str) -> Value {
    let all = report["work"].as_array().unwrap();
    let work = all.iter().find(|work| work["name"] == name).unwrap().clone();
    let uj = |value: &Value| value.as_i64().unwrap_or(0);
    let mut energy = 0;
    for class in ["package", "dram", "gpu"] {
        let rows = report["ledger"].as_array().unwrap().iter().filter(|row| row["class"] == class);
        let target: i64 = rows.map(|row| uj(&row["target_uj"])).sum();
        assert_eq!(uj(&work["energy_uj"][class]) + uj(&work["rest_uj"][class]), target, "{class}: {work}");
        energy += uj(&work["energy_uj"][class]);
    }
    if let Some(each) = work["uj_per_unit"].as_f64() {
        let whole = each * work["units"].as_f64().unwrap();
        assert_eq!(whole.round(), energy as f64, "{work}");
        let end = |at: usize| work["ci95_uj_per_unit"][at].as_f64();
        // Of a model's energy nothing is known.
        let is_within = end(0).is_none_or(|least| least <= each) && end(1).is_none_or(|most| each <= most);
        assert!(is_within, "{work}");
    }
    let steps = work["over_time"].as_array().unwrap();
    if !steps.is_empty() {
        let sum: i64 = steps.iter().map(|step| uj(&step["energy_uj"])).sum();
        assert_eq!(sum, energy, "{work}");
        let in_order = |pair: &[Value]| uj(&pair[0]["to_ns"]) <= uj(&pair[1]["from_ns"]);
        assert!(steps.windows(2).all(in_order), "{work}");
    }
    work
}

fn codes(report: &Value) -> Vec<&str> {
    report["meta"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|warning| warning["code"].as_str())
        .collect()
}

/// Joules that the program has spent in its units, as the simulator knows.
fn spent(simulation: &Simulation) -> f64 {
    simulation.truth().functions.get("forty_watts").map_or(0.0, |spent| spent.uj as f64 / 1e6)
}

/// The interval of the joules of a unit has these, or misses them by so many percent.
#[track_caller]
fn assert_joules(work: &Value, joules: f64, percent: f64) {
    let end = |at: usize| work["ci95_uj_per_unit"][at].as_f64().unwrap() / 1e6;
    let (least, most) = (end(0) * (1.0 - percent / 100.0), end(1) * (1.0 + percent / 100.0));
    assert!((least..=most).contains(&joules), "{joules} J is not in {least} to {most}: {work}");
}
