//! The whole program on simulated power: what it says each function spent, against what each really spent.
//!
//! Needs root, BPF, /dev/fuse, two CPUs and util-linux (taskset, chrt). Leaves out concurrent threads and everything that a real socket
//! adds to the sum of its functions.

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{self, Finished, Guard};
use energy_trace_tests::report::Report;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// CPU 1 is for one workload at a time.
static CPU_1: Mutex<()> = Mutex::new(());

const LIMIT: Duration = Duration::from_secs(180);

fn energy_trace() -> Command {
    Command::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn run(command: &mut Command) -> Finished {
    Guard::spawn(command).unwrap().finish(LIMIT).unwrap()
}

/// Records the phases for so many seconds, alone on CPU 1, and returns what the program said and its report.
fn record(simulation: &Simulation, folder: &Path, seconds: u32) -> (Finished, Report) {
    let (finished, report) = record_with(simulation, folder, seconds, &[]);
    assert!(finished.status.success(), "{}", finished.stderr);
    (finished, report)
}

/// The same with more options, whatever the status.
fn record_with(simulation: &Simulation, folder: &Path, seconds: u32, options: &[&str]) -> (Finished, Report) {
    let _alone = CPU_1.lock().unwrap_or_else(PoisonError::into_inner);
    let data = folder.join("energy-trace.data");
    let mut command = energy_trace();
    command.args(["record", "--no-svg", "--power", "powercap", "--path.sysfs"]).arg(simulation.sysfs());
    // What the machine does beside this draws nothing of the simulator, but would be taken for load while the idle power is measured.
    command.args(["--idle-watts", "10"]);
    command.arg("-o").arg(&data).args(options).arg("--").args(process::alone_on(1)).arg(process::python());
    command.arg(process::phases_script()).arg(seconds.to_string());
    for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(variable);
    }
    let finished = run(command.env(SOCKET_VARIABLE, simulation.socket()));
    let report = run(energy_trace().args(["report", "--format", "json"]).arg(&data));
    assert!(report.status.success(), "{}", report.stderr);
    (finished, Report::parse(&report.stdout).expect("a report of the contract's shape"))
}

/// Every ledger row balances to the microjoule, and all functions together are the target.
#[track_caller]
fn assert_conserved(report: &Report) {
    assert_eq!(report.ledger.len(), 2, "{:?}", report.ledger);
    for row in &report.ledger {
        assert_eq!(row.imbalance_uj(), 0, "{row:?}");
        assert_eq!(row.quality, "measured");
    }
    let target: i64 = report.ledger.iter().map(|row| row.target_uj).sum();
    assert_eq!(report.self_uj("package"), target);
}

/// Functions of 5, 15 and 40 W in phases of 300 ms for 6 s: each within 5 % of the truth, and every sum exact. (Seen in 20 s: 0.04 %; on another machine 3.1 %.)
#[test]
fn functions_get_what_they_spent() {
    let simulation = Simulation::start(&Options { sockets: 2, step_uj: 61, ..Options::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (_, report) = record(&simulation, folder.path(), 6);
    let truth = simulation.truth();
    assert_conserved(&report);
    assert_eq!(truth.functions.len(), 3, "{truth:?}");
    for (name, spent) in &truth.functions {
        let error = report.total_uj(name, "package") as f64 / spent.uj as f64 - 1.0;
        println!("{name}: {:+.2} % from the truth of {:.3} J", 100.0 * error, spent.uj as f64 / 1e6);
        let told = &report.meta["warnings"];
        assert!(
            error.abs() < 0.05,
            "{name} is {:+.1} % off: {spent:?}; the report warns of {told}",
            100.0 * error
        );
    }
}

/// A counter file that is gone for a second: the run goes on, the reader is told, and every sum is exact all the same.
#[test]
fn counter_that_vanishes_meanwhile() {
    let faults = vec!["intel-rapl:1@2..3:vanish".parse().unwrap()];
    let options = Options { sockets: 2, faults, faults_from_work: true, ..Options::default() };
    let simulation = Simulation::start(&options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (finished, report) = record(&simulation, folder.path(), 4);
    let warnings = report.meta["warnings"].as_array().expect("warnings");
    let failed: Vec<_> = warnings.iter().filter(|w| w["code"] == "power-read-failed").collect();
    assert!(failed.len() == 1 && failed[0]["text"].as_str().unwrap().contains("package-1"), "{warnings:?}");
    assert!(finished.stderr.contains("\n! "), "{}", finished.stderr);
    assert_conserved(&report);
}

/// Counters that never move measure nothing: no joules are shown, the screen says why, and a budget fails with a status of its own.
#[test]
fn counter_that_never_moves() {
    let faults = ["intel-rapl:0@0:constant=0", "intel-rapl:1@0:constant=7000"];
    let faults = faults.map(|fault| fault.parse().unwrap()).to_vec();
    let simulation = Simulation::start(&Options { sockets: 2, faults, ..Options::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (finished, report) = record_with(&simulation, folder.path(), 1, &["--budget", "1kJ"]);
    assert_eq!(finished.status.code(), Some(123), "{}", finished.stderr);
    for text in [
        "no energy was measured",
        "\n! package-0, package-1: none of its energy",
        "did not move",
        "budget cannot be judged",
    ] {
        assert!(finished.stderr.contains(text), "`{text}` is not said: {}", finished.stderr);
    }
    assert!(
        report.ledger.iter().all(|row| row.measured_uj == 0 && row.target_uj == 0),
        "{:?}",
        report.ledger
    );
}

/// A counter that stands still from the second second of the work on: what it said before stays, nothing is below zero, and a budget that the rest could
/// exceed is not kept.
#[test]
fn counter_that_stops_midway() {
    let faults = vec!["intel-rapl:1@1:stuck".parse().unwrap()];
    let options = Options { sockets: 2, faults, faults_from_work: true, ..Options::default() };
    let simulation = Simulation::start(&options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (finished, report) = record_with(&simulation, folder.path(), 4, &["--budget", "1kJ"]);
    assert_eq!(finished.status.code(), Some(123), "{}", finished.stderr);
    assert!(finished.stderr.contains("the counter stood still"), "{}", finished.stderr);
    assert_conserved(&report);
    let [_, stopped] = report.ledger.as_slice() else { panic!("{:?}", report.ledger) };
    assert!(stopped.target_uj > 0, "{stopped:?}");
    let spent: u64 = simulation.truth().functions.values().map(|function| function.uj).sum();
    assert!(2 * stopped.target_uj.unsigned_abs() < spent, "{stopped:?} of {spent} µJ");
    assert!(report.ledger.iter().all(|row| row.other_uj >= 0 && row.idle_uj >= 0), "{:?}", report.ledger);
}
