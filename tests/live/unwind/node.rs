//! Stacks of Node, whose code V8 makes at run time: by the frames that V8 walks itself, of its baseline compiler and of its optimizing one.
//!
//! The program has one chain of calls, whose length each whole stack must have. V8 writes down the names. Leaves out interpreted
//! JavaScript, whose frames are those of files.

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Sample, StackStatus, Truncation};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::process::Command;

/// Calls of the function that calls itself.
const CHAIN: usize = 31;
/// Options of V8: the baseline compiler alone, and both, where no function becomes part of another.
const FORMS: [&[&str]; 2] = [&["--always-sparkplug", "--no-opt"], &["--no-turbo-inlining"]];

fn record(options: &[&str]) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/deep.js");
    let mut line =
        vec!["record", "--power", "none", "--no-svg", "-F", "499", "--", "node", "--perf-basic-prof"];
    line.extend(options);
    line.extend([script.to_str().unwrap(), "0.8"]);
    assert_code(&place.run(&line), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    for process in &recording.processes {
        let _absent = std::fs::remove_file(format!("/tmp/perf-{}.map", process.pid.get()));
    }
    recording
}

/// Frames of the chain in a sample that was taken in the function at its end, or in what that calls.
fn depth(recording: &Recording, sample: &Sample) -> Option<usize> {
    let frames: Vec<_> = recording.frames_of(sample.stack).map(|(_, frame)| frame.name.as_str()).collect();
    // `JS:*down file.js:10:14`; before Node 20 `LazyCompile:*down …`, and since 24 `JS:*'down …`.
    let is_of = |name: &str, function: &str| {
        let function_of = |(_, rest): (&str, &'_ str)| {
            rest.trim_start_matches(['^', '*', '+', '~', '\'']).starts_with(function)
        };
        name.split_once(':').is_some_and(function_of)
    };
    let is_at_end = frames.iter().any(|name| is_of(name, "compute "));
    is_at_end.then(|| frames.iter().filter(|name| is_of(name, "down ")).count())
}

/// Whole stacks have the chain's length, and most stacks are whole.
#[test]
fn chains_are_whole() {
    if Command::new("node").arg("--version").output().is_err() {
        assert!(std::env::var_os("ENERGY_TRACE_CI").is_none(), "no node");
        return;
    }
    for options in FORMS {
        let recording = record(options);
        // The tables of its libraries take a moment, and longer on a busy machine.
        let is_ready = |sample: &&Sample| sample.status != StackStatus::Truncated(Truncation::TablesNotReady);
        let half = recording.samples[recording.samples.len() / 2..].iter().filter(is_ready);
        let chains: Vec<(StackStatus, usize)> =
            half.filter_map(|sample| Some((sample.status, depth(&recording, sample)?))).collect();
        let whole: Vec<usize> = chains
            .iter()
            .filter(|(status, _)| matches!(status, StackStatus::Complete | StackStatus::Recovered(_)))
            .map(|(_, depth)| *depth)
            .collect();
        let wrong = whole.iter().filter(|depth| **depth != CHAIN).count();
        eprintln!("{options:?}: {} of {} whole, {wrong} of another length", whole.len(), chains.len());
        // While V8 turns to better code, a frame or two of the chain may still be interpreted, and have another name.
        assert!(chains.len() > 40 && wrong * 50 <= whole.len(), "{options:?}: {whole:?}");
        assert!(
            whole.len() * 100 >= chains.len() * 85,
            "{options:?}: {} of {} whole: {:?}",
            whole.len(),
            chains.len(),
            chains.iter().map(|(status, _)| status).collect::<Vec<_>>()
        );
    }
}
