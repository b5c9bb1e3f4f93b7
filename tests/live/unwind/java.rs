//! Stacks of Java, whose compiled code keeps no frame pointer: by what HotSpot keeps of its code, interpreted, and compiled by both compilers.
//!
//! The program has one chain of calls, whose length each whole stack must have. Leaves out names of Java methods.

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind, Sample, StackStatus};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::path::Path;
use std::process::Command;

/// By which native code calls Java; `main`, thirty calls, and the one that computes.
const CHAIN: usize = 1 + 1 + 30 + 1;

fn record(folder: &Path, options: &[&str]) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut line = vec!["record", "--power", "none", "--no-svg", "-F", "499", "--", "java", "-Xshare:auto"];
    // No method becomes part of another.
    line.extend(["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep::*"]);
    line.extend(options);
    line.extend(["-cp", folder.to_str().unwrap(), "Deep", "2"]);
    assert_code(&place.run(&line), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

fn is_java(frame: &Frame) -> bool {
    frame.kind == FrameKind::Native && frame.name.starts_with("[jit")
}

/// Frames of Java in a sample whose innermost ones they are, and which native code has called.
fn depth(recording: &Recording, sample: &Sample) -> Option<usize> {
    let frames: Vec<&Frame> = recording.frames_of(sample.stack).map(|(_, frame)| frame).collect();
    let mut native = frames.iter().filter(|frame| frame.kind == FrameKind::Native);
    let is_called = frames.iter().any(|frame| frame.name.starts_with("jni_invoke_static"));
    let runs_java = native.next_back().is_some_and(|frame| is_java(frame));
    (is_called && runs_java).then(|| frames.iter().filter(|frame| is_java(frame)).count())
}

/// Whole stacks have the chain's length, or one more while a small function is called; and most stacks are whole once the machine runs.
#[test]
fn chains_are_whole() {
    check_all(&[&["-Xint"], &[]]);
}

/// The same of the first compiler alone, and with frame pointers.
#[test]
#[ignore = "the same code as above in other forms: cargo xtask test --all runs it"]
fn chains_of_other_compilers() {
    check_all(&[&["-XX:TieredStopAtLevel=1"], &["-XX:+PreserveFramePointer"]]);
}

fn check_all(forms: &[&[&str]]) {
    if Command::new("javac").arg("-version").output().is_err() {
        assert!(std::env::var_os("ENERGY_TRACE_CI").is_none(), "no javac");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = tests_dir().join("workloads/Deep.java");
    let mut javac = Command::new("javac");
    assert!(javac.arg("-d").arg(folder.path()).arg(source).status().unwrap().success());
    for options in forms {
        let recording = record(folder.path(), options);
        // The tables of its libraries take a moment.
        let half = &recording.samples[recording.samples.len() / 2..];
        let java: Vec<(StackStatus, usize)> =
            half.iter().filter_map(|sample| Some((sample.status, depth(&recording, sample)?))).collect();
        let whole: Vec<usize> = java
            .iter()
            .filter(|(status, _)| *status == StackStatus::Complete)
            .map(|(_, depth)| *depth)
            .collect();
        let wrong = whole.iter().filter(|depth| !(CHAIN..=CHAIN + 1).contains(depth)).count();
        eprintln!("{options:?}: {} of {} whole, {wrong} of another length", whole.len(), java.len());
        // The chain itself may be just growing or shrinking: 3 of 130 on a machine that was slow at that moment.
        assert!(java.len() > 20 && wrong * 25 <= whole.len(), "{options:?}: {whole:?}");
        // Where the frame of an interpreted method is just made or left, its caller is a guess. How often a sample falls there depends on where the
        // processor stalls, which differs from run to run: 78 to 98 % were whole. `walkers::hotspot` shows each rule.
        let least = if *options == ["-Xint"] { 50 } else { 85 };
        assert!(
            whole.len() * 100 >= java.len() * least,
            "{options:?}: {} of {} whole",
            whole.len(),
            java.len()
        );
    }
}
