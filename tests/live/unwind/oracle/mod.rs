//! Stacks against the interpreter's own word, for every CPython of the machine: BPF programs load and real Pythons are sampled.
//!
//! A program (`workloads/oracle.py`) writes for each stay in each of its regions which frames are above it, with lines and with the C code
//! between them; every sample that falls into a stay must show exactly these. `cargo xtask oracle` runs the long form and prints the
//! table. Leaves out the line of the innermost frame, which the program cannot know: another one is made so that its lines show (`workloads/leaf_lines.py`).

mod leaf_lines;
mod seen;
mod tally;
mod truth;

use energy_trace_model::recording::Recording;
use energy_trace_sentences as sentences;
use energy_trace_tests::breadth::{half_or_all, some_or_all};
use energy_trace_tests::interpreters;
use energy_trace_tests::place::Place;
use energy_trace_tests::process::tests_dir;
use std::path::{Path, PathBuf};
use tally::Tally;
use truth::Stay;

/// What a run of the program gave.
struct Run {
    recording: Recording,
    stays: Vec<Stay>,
    /// Its words about regions that cannot run.
    skipped: Vec<String>,
}

/// Records the program under one interpreter: `hz` samples a second, each region `seconds` of CPU time.
fn record(options: &[&str], python: &Path, hz: &str, seconds: &str, regions: &[&str]) -> Run {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/oracle.py");
    // Where debug information is at hand, C functions that the compiler put into others have names too: Debian's build puts the one that calls
    // weak references into the one that frees objects.
    let mut arguments = vec!["record", "--power", "none", "--no-svg", "--inlines", "-F", hz];
    arguments.extend(options);
    arguments.extend(["--", python.to_str().unwrap(), script.to_str().unwrap(), "truth", seconds]);
    arguments.extend(regions);
    let mut command = place.command(&arguments);
    let version = interpreters::version(python);
    if let Some(packages) = interpreters::packages(&version) {
        command.env("PYTHONPATH", packages);
    }
    if version.ends_with('t') {
        command.env("PYTHON_GIL", "0"); // Else greenlet brings the lock back.
    }
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {told}", python.display());
    let skipped = told.lines().filter_map(|line| line.strip_prefix("skipped: ")).map(str::to_owned).collect();
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    Run { recording, stays: truth::read(&place.path("truth")), skipped }
}

/// The version that a recording's interpreter has by its own word.
fn runtime(recording: &Recording) -> String {
    recording.processes.iter().find_map(|p| p.runtime.as_ref().map(sentences::runtime)).unwrap_or_default()
}

fn tally(run: &Run) -> Tally {
    let runtime = runtime(&run.recording);
    let minor =
        runtime.strip_prefix("CPython 3.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    Tally::of(&run.recording, &run.stays, minor.is_some_and(|minor| minor >= 11))
}

/// Prints the row of one interpreter, and what differs.
fn show(python: &Path, run: &Run, tally: &Tally) {
    let (runtime, event) = (runtime(&run.recording), &run.recording.header.sample_event);
    eprintln!("{} ({runtime}), by {event:?}\n    {}", python.display(), tally.row());
    if !tally.unchecked.is_empty() {
        eprintln!("    interleaving not compared, native frames being cut: {}", tally.left_out());
    }
    for skipped in &run.skipped {
        eprintln!("    skipped: {skipped}");
    }
    let mut shown = std::collections::BTreeSet::new();
    for (region, seen) in tally.different.iter().filter(|(region, _)| shown.insert(region.clone())) {
        eprintln!("    different in {region}: {}", words_of(seen));
    }
    let mut shown = std::collections::BTreeSet::new();
    for (region, at, seen) in
        tally.misplaced.iter().filter(|(r, at, _)| shown.insert((r.clone(), at.clone())))
    {
        eprintln!("    misplaced in {region} before {at}: {}", words_of(seen));
    }
    let unseen = tally.unseen(&run.stays);
    if !unseen.is_empty() {
        eprintln!("    no equal sample in {unseen:?}");
    }
}

fn words_of(seen: &[seen::Seen]) -> String {
    let word = |frame: &seen::Seen| {
        let mark = if frame.from_c { "C" } else { "" };
        format!("{mark}{:?} {}:{}", frame.words, frame.name, frame.line)
    };
    seen.iter().map(word).collect::<Vec<_>>().join(" > ")
}

/// The interpreters that are compared: those of the machine, or of `ENERGY_TRACE_PYTHONS` (paths, one a line).
fn pythons() -> Vec<PathBuf> {
    match std::env::var("ENERGY_TRACE_PYTHONS") {
        Ok(list) if !list.is_empty() => list.lines().map(PathBuf::from).collect(),
        _ => interpreters::supported(),
    }
}

/// Every sample inside a region shows exactly the frames and lines that the interpreter says, and C code exactly where C called. Unless all is
/// asked for, of 3.8, 3.12 and what is newer than 3.13: others are those of the next two tests, and all are those of `cargo xtask oracle`.
#[test]
fn stacks_are_the_interpreters() {
    let all = std::env::var_os("ENERGY_TRACE_ALL").is_some();
    let is_one = |python: &PathBuf| {
        let version = interpreters::version(python);
        let minor =
            version.strip_prefix("3.").and_then(|rest| rest.trim_end_matches('t').parse::<u32>().ok());
        minor.is_none_or(|minor| minor % 4 == 0 || minor > 13 && minor % 2 == 0)
    };
    let mut compared = 0;
    for python in pythons().into_iter().filter(|python| all || is_one(python)) {
        compare(&[], &python);
        compared += 1;
    }
    assert!(compared > 0 || std::env::var_os("ENERGY_TRACE_CI").is_none(), "nothing was compared");
}

/// The same where user space unwinds native frames, from copies of the stack: one interpreter of each way to find the seam, unless all is asked for
/// of the newest. The system's is compared in `cold.rs` too.
#[test]
fn user_space_unwinds_as_well() {
    let mut pythons = interpreters::found(13..=13);
    pythons.truncate(1);
    pythons.push(PathBuf::from("/usr/bin/python3"));
    pythons.extend(interpreters::found(9..=9).into_iter().take(1));
    for python in some_or_all(&pythons) {
        compare(&["--unwind", "user"], python);
    }
}

/// The same with what Linux 5.10 has: the registers of user mode are found without a helper.
#[test]
fn the_oldest_kernel_does_as_well() {
    let pythons = interpreters::found(11..=11).into_iter().chain(interpreters::found(13..=13));
    for python in some_or_all(&pythons.take(2).collect::<Vec<_>>()) {
        compare(&["--oldest-kernel"], python);
    }
}

/// A debug build's frames and code objects lie where those of a release build do.
#[test]
#[ignore = "needs Debian's python3-dbg: cargo xtask test --all"]
fn a_debug_build_is_read() {
    let python = Path::new("/usr/bin/python3-dbg");
    if python.exists() {
        compare(&[], python);
    } else {
        eprintln!("not tested: there is no debug build of CPython (Debian's python3-dbg)");
    }
}

fn compare(options: &[&str], python: &Path) {
    let run = record(options, python, "997", "0.04", &[]);
    let tally = tally(&run);
    show(python, &run, &tally);
    let python = python.display();
    assert!(tally.different.is_empty(), "{python}: {} samples differ", tally.different.len());
    assert!(tally.misplaced.is_empty(), "{python}: {} samples have C elsewhere", tally.misplaced.len());
    let refused = tally.inside() - tally.equals();
    assert!(refused * 50 < tally.equals(), "{python}: {refused} samples are refused");
    assert_eq!(tally.unseen(&run.stays).len(), 0, "{python}");
    // A region's first samples hold code objects that nobody read yet, and all of them must bring what tells these from others.
    assert!(tally.mostly_refused().is_empty(), "{python}: {:?}", tally.mostly_refused());
    assert!(run.stays.len() > 40, "{python}: {} stays", run.stays.len());
}

/// The long form, `cargo xtask oracle`: 99.9 % of the samples inside regions are equal, none is wrong, and the interleaving is as told.
#[test]
#[ignore = "takes minutes: cargo xtask oracle runs it"]
fn matrix() {
    let seconds = std::env::var("ENERGY_TRACE_ORACLE_SECONDS").unwrap_or_else(|_| "1".into());
    let regions = std::env::var("ENERGY_TRACE_ORACLE_REGIONS").unwrap_or_default();
    let regions: Vec<&str> = regions.split_whitespace().collect();
    let mut failed = Vec::new();
    for python in pythons() {
        let run = record(&[], &python, "997", &seconds, &regions);
        let tally = tally(&run);
        show(&python, &run, &tally);
        let refused = tally.inside() - tally.equals() - tally.different.len();
        let wrong = tally.different.len() + tally.misplaced.len();
        if wrong > 0 || refused * 1000 > tally.inside() || tally.equals() == 0 {
            failed.push(python);
        }
    }
    assert!(failed.is_empty(), "these are not as they should be: {failed:?}");
}

/// The line of the innermost frame is that of the instruction that runs, in every version: loads of variables, which cannot fail, are not
/// taken for part of the line before.
#[test]
fn lines_of_the_innermost_frame() {
    for python in half_or_all(pythons()) {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        let script = tests_dir().join("workloads/leaf_lines.py");
        let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
        let arguments = ["record", "--power", "none", "--no-svg", "-F", "499", "--", python, script, "0.5"];
        assert_eq!(place.run(&arguments).status.code(), Some(0));
        let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
        let lines = leaf_lines::LeafLines::of(&recording);
        eprintln!("{python}: {lines:?}");
        // Of 255 instructions of a pair of lines, two are on the short one.
        assert!(lines.long > 20 && (lines.short + lines.elsewhere) * 4 < lines.long, "{python}: {lines:?}");
    }
}
