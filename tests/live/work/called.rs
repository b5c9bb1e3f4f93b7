//! Work by calls of Python functions, as interpreters tell it: when each was called, very many units, and what nothing has.

use super::{counting_python, place};
use crate::work::interpreters;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{WorkReading, WorkUnits};
use energy_trace_tests::place::{Place, assert_code, text};
use std::process::{Command, Stdio};

/// Calls for about half a second, and rests for two; at the end it and a child call each of very many functions once.
const PROGRAM: &str = "import os, time
def unit(): pass
for n in range(600): exec(f'def f{n}(): pass')
for _ in range(57):
    unit()
    time.sleep(0.01)
print(time.monotonic_ns(), flush=True)
time.sleep(2)
for n in range(600): globals()[f'f{n}']()
child = os.fork()
for n in range(600): globals()[f'f{n}']()
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

/// Calls count when they were made, also those that are told when the next one comes, or at the end; of 601 units none is cut off.
#[test]
fn when_each_was_called() {
    if interpreters::found(12..=13).is_empty() {
        return;
    }
    let place = place();
    let units = (0..600).map(|n| format!("--work=w{n}=calls:f{n}"));
    let options: Vec<String> = std::iter::once("--work=unit=calls:unit".into()).chain(units).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (recording, printed, _) =
        record(&place, &options, &[counting_python().to_str().unwrap(), "-c", PROGRAM]);
    let rests_at: u64 = printed.trim().parse().unwrap();
    let all = recording.work[0].readings.iter().find(|reading| is(reading, 57)).unwrap();
    // Half of the rest, for a machine that does much else.
    assert!(all.at.as_ns() < rests_at + 1_000_000_000, "{all:?}, {rests_at}");
    for series in &recording.work[1..] {
        assert!(is(series.readings.last().unwrap(), 3), "{:?}", series.counter);
    }
}

/// What no function has is said while the program runs, with what to do; of one that ran already, that its functions of Python are not counted.
#[test]
fn functions_that_are_missing() {
    let place = place();
    let (_, _, said) =
        record(&place, &["--work=x=calls:rename", "--work=y=calls:usleep@libc.so"], &["sleep", "5"]);
    let missing = "nothing is counted yet of calls:rename: no machine code of that name was found, and no function of Python was called so";
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
