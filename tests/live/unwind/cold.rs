//! Stacks of programs that nobody has met before, and stacks that user space unwinds: live, from the first sample on.
//!
//! Each recording starts with no table of any file. Leaves out what Python frames must be (`stacks.rs`), and how long anything takes.

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::CopyOutcome;
use energy_trace_model::recording::record::{FrameKind, StackStatus, Truncation, Unwinding};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::collections::BTreeMap;

/// Records a command at 999 Hz.
fn record(unwind: &str, command: &[&str]) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let options = ["record", "--power", "none", "--no-svg", "-F", "999", "--unwind", unwind, "--"];
    assert_code(&place.run(&[&options, command].concat()), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// Stands for a function whose name was not read in time.
const GONE: &str = "[unknown: Python function that is gone]";

/// The names of a stack, outermost first.
fn names(recording: &Recording, stack: StackId) -> String {
    // The kernel's frames come after these, and differ from one moment to the next.
    let of_user = recording.frames_of(stack).filter(|(_, frame)| frame.kind != FrameKind::Kernel);
    of_user.map(|(_, frame)| frame.name.as_str()).collect::<Vec<_>>().join(";")
}

const fn is_whole(status: StackStatus) -> bool {
    matches!(status, StackStatus::Complete | StackStatus::Recovered(_))
}

/// How many samples have which verdict; those that are not whole in full.
fn show(recording: &Recording) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for sample in &recording.samples {
        *counts.entry(format!("{:?}", sample.status)).or_default() += 1;
        if !is_whole(sample.status) {
            eprintln!("{:?}: {}", sample.status, names(recording, sample.stack));
        }
    }
    format!("{counts:?}, {:?}", recording.summary.as_ref().map(|s| &s.copies))
}

/// A second of Python from nothing: hardly a sample waits for a table, and nearly all stacks are whole: the first tenth may go by until
/// the interpreter is known.
#[test]
fn short_programs_lose_nothing() {
    let spin = "import json, time\nend = time.time() + 1\nwhile time.time() < end: json.dumps(sorted(range(50), key=str))";
    for unwind in ["kernel", "user"] {
        let recording = record(unwind, &["/usr/bin/python3", "-c", spin]);
        let shown = show(&recording);
        let late = StackStatus::Truncated(Truncation::TablesNotReady);
        // On a machine with ten programs a CPU two of 305 came before those of a module that Python had just loaded.
        let late = recording.samples.iter().filter(|s| s.status == late).count();
        assert!(late * 50 <= recording.samples.len(), "{unwind}: {shown}");
        let whole = recording.samples.iter().filter(|s| is_whole(s.status)).count();
        eprintln!("{unwind}: {whole} of {} are whole; {shown}", recording.samples.len());
        assert!(recording.samples.len() > 20, "{unwind}: {shown}");
        assert!(whole * 100 >= recording.samples.len() * 90, "{unwind}: {shown}");
    }
}

/// Programs that are gone before anybody looks at them: every sample has a verdict that is not about tables, and a count.
#[test]
fn programs_of_a_moment() {
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/ls / > /dev/null; done";
    let recording = record("kernel", &["/bin/sh", "-c", script]);
    let shown = show(&recording);
    eprintln!("{shown}");
    assert!(!recording.samples.is_empty() && recording.processes.len() > 20, "{shown}");
    let late = StackStatus::Truncated(Truncation::TablesNotReady);
    assert!(!recording.samples.iter().any(|s| s.status == late), "{shown}");
    let gone = StackStatus::Truncated(Truncation::ProcessGone);
    let gone = recording.samples.iter().filter(|s| s.status == gone).count() as u64;
    let counted = recording.summary.as_ref().unwrap().copies.get(&CopyOutcome::ProcessGone);
    assert_eq!(counted.copied().unwrap_or(0), gone, "{shown}");
}

/// How often each stack was seen whole without a bridge, by names. Until a file's tables are there, which neighbours delay, gaps are bridged.
/// Stacks with functions whose names neighbours kept from being read in time are another matter.
fn complete(recording: &Recording) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for sample in recording.samples.iter().filter(|s| s.status == StackStatus::Complete) {
        let names = names(recording, sample.stack);
        if !names.contains(GONE) {
            *counts.entry(names).or_default() += 1;
        }
    }
    counts
}

/// Those of `seen` that `other`, which holds more or fewer samples of the same program, can miss by chance once in three million runs.
fn expected<'a>(
    seen: &'a BTreeMap<String, usize>,
    other: &BTreeMap<String, usize>,
) -> impl Iterator<Item = &'a String> {
    let [all, others]: [usize; 2] = [seen, other].map(|counts| counts.values().sum());
    seen.iter().filter(move |(_, count)| *count * others >= 15 * all).map(|(name, _)| name)
}

/// Kernel and user space see the same stacks of the same program, and the recording says who unwound.
#[test]
fn both_ways_give_the_same_stacks() {
    let script = tests_dir().join("workloads/calls.py");
    let command = ["/usr/bin/python3", script.to_str().unwrap(), "2"];
    let recordings = ["kernel", "user"].map(|unwind| record(unwind, &command));
    let [kernel, user] = &recordings;
    assert_eq!(kernel.summary.as_ref().unwrap().unwinding, Unwinding::Kernel);
    assert_eq!(user.summary.as_ref().unwrap().unwinding, Unwinding::User);
    let [by_kernel, by_user] = [kernel, user].map(complete);
    for (seen, other) in [(&by_kernel, &by_user), (&by_user, &by_kernel)] {
        let expected: Vec<&String> = expected(seen, other).collect();
        assert!(!expected.is_empty(), "{} and {}", show(kernel), show(user));
        let missing: Vec<&&String> = expected.iter().filter(|stack| !other.contains_key(**stack)).collect();
        assert!(missing.is_empty(), "seen by one only: {missing:?}");
    }
    for recording in &recordings {
        let whole = recording.samples.iter().filter(|s| is_whole(s.status)).count();
        assert!(whole * 100 >= recording.samples.len() * 97, "{}", show(recording));
    }
}
