//! Work by calls of Python functions, as interpreters tell it: when each was called, very many units, and what nothing has.

use super::{counting_python, place};
use crate::work::interpreters;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CallDiagnostic, RecordingDiagnostic, WorkReading, WorkUnits};
use energy_trace_tests::place::{Place, assert_code, text};
use energy_trace_tests::process::Guard;
use std::process::{Command, Stdio};

/// Calls for about half a second, and rests for two; at the end it and a child call each of very many functions once.
const PROGRAM: &str = "import os, time
def unit(): pass
for n in range(250): exec(f'def f{n}(): pass')
for _ in range(57):
    unit()
    time.sleep(0.01)
print(time.monotonic_ns(), flush=True)
time.sleep(2)
for n in range(250): globals()[f'f{n}']()
child = os.fork()
for n in range(250): globals()[f'f{n}']()
if child: os.waitpid(child, 0)
";

fn record(place: &Place, options: &[&str], command: &[&str]) -> (Recording, String, String) {
    let first = ["record", "--power", "none", "--no-svg"];
    let output = place.run(&[&first[..], options, &["--"], command].concat());
    assert_code(&output, 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    (recording, text(&output.stdout), text(&output.stderr))
}

fn is(reading: &WorkReading, calls: u64) -> bool {
    reading.value == Ok(WorkUnits::whole(calls))
}

/// Calls count when they were made, also those that are told when the next one comes, or at the end; of 251 units none is cut off.
#[test]
fn when_each_was_called() {
    if interpreters::found(12..=13).is_empty() {
        return;
    }
    let place = place();
    let units = (0..250).map(|n| format!("--work=w{n}=calls:f{n}"));
    let options: Vec<String> = std::iter::once("--work=unit=calls:unit".into()).chain(units).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (recording, printed, _) =
        record(&place, &options, &[counting_python().to_str().unwrap(), "-c", PROGRAM]);
    let rests_at: u64 = printed.trim().parse().unwrap();
    let all = recording.work[0].readings.iter().find(|reading| is(reading, 57)).unwrap();
    // Half of the rest, for a machine that does much else.
    assert!(all.at.as_ns() < rests_at + 1_000_000_000, "{all:?}, {rests_at}");
    for series in &recording.work[1..] {
        let last = series.readings.last().unwrap();
        assert!(is(last, 3), "{:?}: {last:?}", series.counter);
    }
}

/// What no function has is said while the program runs, with what to do; of one that ran already, that its functions of Python are not counted.
#[test]
fn functions_that_are_missing() {
    let place = place();
    let (_, _, said) =
        record(&place, &["--work=x=calls:rename", "--work=y=calls:usleep@libc.so"], &["sleep", "5"]);
    let missing = "nothing is counted yet of calls:rename: no machine code of that name was found, and no function of Python (3.12 and later) was called so";
    assert!(said.contains(missing) && said.contains("calls:NAME@LIBRARY"), "{said}");
    let python = counting_python();
    let mut command = Command::new(python);
    let mut running =
        command.args(["-c", "import time\ntime.sleep(60)"]).stdin(Stdio::null()).spawn().unwrap();
    let id = running.id().to_string();
    let first =
        ["record", "--power", "none", "--no-svg", "--duration", "5", "--work=x=calls:step", "-p", &id];
    let output = place.run(&first);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_code(&output, 0);
    let said = text(&output.stderr);
    assert!(
        said.contains("calls:step: ") && said.contains("only in a program that energy-trace starts"),
        "{said}"
    );
}

/// Of Python that did not tell its calls nobody knows whether a function was called: that it was not found is said of none, beside its calls or
/// not, where a process was killed, where it is too old, and where it ran already.
#[test]
fn what_is_not_told_is_not_missing() {
    const BUSY: &str = "import os, sys, time
def unit():
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
if len(sys.argv) == 1 and os.fork(): os.wait()
else:
    for _ in range(40 if len(sys.argv) == 1 else 10**6): unit()
    if len(sys.argv) == 1: os.kill(os.getpid(), 9)
";
    let place = place();
    let is_missing = |recording: &Recording| {
        let all = recording.summary.iter().flat_map(|summary| &summary.diagnostics);
        let missing =
            |found: &_| matches!(found, RecordingDiagnostic::Calls(CallDiagnostic::NotFound { .. }));
        all.into_iter().any(missing)
    };
    for python in interpreters::found(8..=11).iter().take(1).chain(interpreters::found(12..=13).first()) {
        let (recording, ..) =
            record(&place, &["--work=unit=calls:unit"], &[python.to_str().unwrap(), "-c", BUSY]);
        assert!(!is_missing(&recording), "{recording:?}");
    }
    // Ends with the guard: a busy machine takes its time to attach.
    let running = Guard::spawn(Command::new(counting_python()).args(["-c", BUSY, "alone"])).unwrap();
    let id = running.pid().to_string();
    let attached =
        ["record", "--power", "none", "--no-svg", "--work=x=calls:unit", "--duration", "1s", "-p", &id];
    assert_code(&place.run(&attached), 0);
    drop(running);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    assert!(!is_missing(&recording), "{recording:?}");
    let (recording, ..) = record(&place, &["--work=unit=calls:no_such_function"], &["true"]);
    assert!(is_missing(&recording));
}
