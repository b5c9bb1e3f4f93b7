//! Calls that are counted, in a program whose calls are known. Needs root.
//!
//! Leaves out what a call costs in joules (`offline/report/counts.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CallDiagnostic, PythonNotCounted, RecordingDiagnostic};
use energy_trace_tests::interpreters::found as pythons;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::process::Command;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn record(place: &Place, options: &[&str], command: &[&str]) -> Recording {
    let first = ["record", "--power", "none", "--no-svg"];
    assert_code(&place.run(&[&first[..], options, &["--"], command].concat()), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// Calls of a function, and those within another one.
fn calls(recording: &Recording, function: &str) -> Option<(u64, u64)> {
    let count =
        recording.calls.iter().find(|count| recording.frames[count.frame.index()].name == function)?;
    Some((count.calls, count.nested))
}

fn found(recording: &Recording) -> Vec<CallDiagnostic> {
    let all = recording.summary.iter().flat_map(|summary| &summary.diagnostics);
    all.filter_map(|found| match found {
        RecordingDiagnostic::Calls(found) => Some(found.clone()),
        _ => None,
    })
    .collect()
}

/// Every call is counted once, of all threads and children; of recursion all but the first are within another. What is not there is named,
/// and the cost of counting is measured.
#[test]
fn every_call_once() {
    let place = place();
    let (source, program) = (tests_dir().join("workloads/counted.c"), place.path("counted"));
    let built = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).args([&program, &source]).status();
    assert!(built.unwrap().success());
    let recording = record(&place, &["--count=work,fib,absent"], &[program.to_str().unwrap()]);
    assert_eq!(calls(&recording, "work"), Some((2 * 1000 + 300 + 200 + 200, 0)));
    // fib(n) makes 2 fib(n + 1) - 1 calls.
    assert_eq!(calls(&recording, "fib"), Some((2 * 233 - 1, 2 * 233 - 2)));
    let found = found(&recording);
    let missing = CallDiagnostic::NotFound { names: vec!["absent".into()] };
    assert!(found.contains(&missing), "{found:?}");
    let cost = found.iter().find_map(|found| match found {
        CallDiagnostic::Cost { calls, call_ns, functions, .. } => Some((*calls, *call_ns, *functions)),
        _ => None,
    });
    let (calls, call_ns, functions) = cost.unwrap();
    assert_eq!((calls, functions), (2700 + 465, 2));
    assert!(call_ns > 0);
    assert!(!found.iter().any(|found| matches!(found, CallDiagnostic::Late { .. })), "{found:?}");
}

/// Functions of Python are counted by a module in the command: of all threads and forked children, and with how long they took. The program's
/// own `sitecustomize` is loaded all the same. Interpreters that cannot count are named.
#[test]
fn python_functions() {
    let place = place();
    std::fs::create_dir(place.path("own")).unwrap();
    place.write("own/sitecustomize.py", 0o644, "OWN = True\n");
    let script = tests_dir().join("workloads/counted.py");
    let script = script.to_str().unwrap();
    let run = |python: &std::path::Path| {
        let first = ["record", "--power", "none", "--no-svg", "--count=fib,work,fails", "--"];
        let mut command = place.command(&[&first[..], &[python.to_str().unwrap(), script]].concat());
        assert_code(&command.env("PYTHONPATH", place.path("own")).output().unwrap(), 0);
        energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
    };
    for python in pythons(12..=13).iter().rev().take(1) {
        let recording = run(python);
        assert_eq!(calls(&recording, "work"), Some((3 * 500 + 30, 0)));
        assert_eq!(calls(&recording, "fib"), Some((465, 464)));
        assert_eq!(calls(&recording, "fails"), Some((10, 0)));
        assert!(
            recording.calls.iter().all(|count| count.times.is_some_and(|times| times.p50_ns <= times.p99_ns))
        );
        let found = found(&recording);
        assert!(
            found.iter().any(|found| matches!(found, CallDiagnostic::PythonCost { calls: 2005, .. })),
            "{found:?}"
        );
    }
    for python in pythons(8..=11).iter().take(1) {
        let found = found(&run(python));
        let is_old = |found: &CallDiagnostic| matches!(found, CallDiagnostic::PythonNotCounted(PythonNotCounted::Version { version }) if version.starts_with("3."));
        assert!(found.iter().any(is_old), "{found:?}");
    }
}
