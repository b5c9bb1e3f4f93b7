//! `--control`: programs that attach are told of the beginning, and end the recording by their pipe.
//!
//! Leaves out the program that does so, the Python package (`tests/python`).

use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, text};
use std::process::Command;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// A process that waits, and the words that attach to it.
fn target() -> (Talk, String) {
    let mut cat = Command::new("cat");
    cat.arg("-");
    let waits = Talk::spawn(cat);
    let pid = waits.0.id().to_string();
    (waits, format!("record --power none --no-svg --control -p {pid}"))
}

/// One line says when it began, and nothing else comes on stdout; the end of stdin ends it, and its file has this beginning.
#[test]
fn begins_and_ends() {
    let (place, (_target, line)) = (place(), target());
    let mut recorder = Talk::spawn(place.command(&line.split(' ').collect::<Vec<_>>()));
    let told: serde_json::Value = serde_json::from_str(&recorder.line()).unwrap();
    assert_eq!(told["event"], "recording");
    let output = recorder.end();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "");
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    assert_eq!(recording.summary.unwrap().start.as_ns(), told["start_ns"].as_u64().unwrap());
}

/// What cannot be waited for is refused before anything is recorded.
#[test]
fn stdin_has_to_be_a_pipe() {
    let (place, (_target, line)) = (place(), target());
    let output = place.run(&line.split(' ').collect::<Vec<_>>());
    assert_code(&output, 125);
    assert_says(&output, &["stdin is no pipe", "sleep 60 | energy-trace record --control"]);
    assert!(!place.path("energy-trace.data").exists());
}
