//! Code that lies where other code lay a moment ago: texts that a program compiles and runs one after the other.
//!
//! Leaves out machine code that is made at run time (`symbols`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::Thread;
use energy_trace_tests::breadth::{half_or_all, some_or_all};
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::path::Path;

/// A text's number, and when it ran.
type Told = (u32, u64, u64);

/// What file and function of the texts are called: files that differ at their head, at their end and in their middle,
/// and functions that differ at their head, in a file that is no path and in one that is.
fn called() -> Vec<(String, String)> {
    let (long, name) = ("long/".repeat(20), "x".repeat(80));
    let run = || "run".to_owned();
    vec![
        (format!("/srv/text_{{:03}}/{long}index.html"), run()),
        ("/generated/text_{:03}.py".to_owned(), run()),
        (format!("/srv/{long}text_{{:03}}/{long}index.html"), run()),
        ("<generated>".to_owned(), format!("text_{{:03}}_{name}")),
        ("/generated/all.py".to_owned(), format!("text_{{:03}}_{name}")),
    ]
}

/// Records the program, with its last arguments: what was recorded, and what it says itself.
fn record(python: &Path, (file, name): &(String, String), last: &[&str]) -> (Recording, Vec<Told>) {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/one_place.py");
    let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
    let command = [python, script, "0.01", "8", "5", file, name];
    let arguments = ["record", "--power", "none", "--no-svg", "-F", "999", "--"];
    let output = place.run(&[&arguments[..], &command, last].concat());
    assert_code(&output, 0);
    let told = |line: &str| {
        let mut words = line.split(' ').map(|word| word.parse::<u64>().ok());
        Some((u32::try_from(words.next()??).ok()?, words.next()??, words.next()??))
    };
    let told = String::from_utf8_lossy(&output.stdout).lines().filter_map(told).collect();
    (read(&place.path("energy-trace.data")).unwrap(), told)
}

/// The texts that a stack names.
fn named(recording: &Recording, stack: StackId) -> Vec<u32> {
    let frames = recording.frames_of(stack).map(|(_, frame)| format!("{} {}", frame.file, frame.name));
    let number = |frame: String| frame.split_once("text_")?.1.get(..3)?.parse().ok();
    frames.filter_map(number).collect()
}

/// The text that ran at that time, if any.
fn running(told: &[Told], at: KtimeNs) -> Option<u32> {
    told.iter().find(|(_, from, to)| (*from..*to).contains(&at.as_ns())).map(|(number, _, _)| *number)
}

/// Of stacks, with their times: how many have their text's name, another's, and none.
fn compare(
    recording: &Recording,
    told: &[Told],
    stacks: impl Iterator<Item = (KtimeNs, StackId)>,
) -> (u32, u32, u32) {
    let (mut right, mut wrong, mut nameless) = (0, 0, 0);
    for (at, stack) in stacks {
        let Some(truth) = running(told, at) else { continue };
        let names = named(recording, stack);
        let counter = match names.iter().all(|name| *name == truth) {
            false => &mut wrong,
            true if names.is_empty() => &mut nameless,
            true => &mut right,
        };
        *counter += 1;
    }
    (right, wrong, nameless)
}

/// No sample has the name of another text than the one that ran, whatever of the two was the same and lay in the same place, and most have its name;
/// a recorder that gets no CPU in time reads none, and is tried again.
fn each_has_its_own_name(python: &Path, called: &(String, String), threads: &str) {
    let has_names = (0..3).any(|_| {
        let (recording, told) = record(python, called, &[threads]);
        assert_eq!(told.len(), 40, "{}", python.display());
        let samples = recording.samples.iter().map(|sample| (sample.at, sample.stack));
        let (right, wrong, nameless) = compare(&recording, &told, samples);
        eprintln!(
            "{}, {called:?}: {right} right, {wrong} wrong, {nameless} without a name",
            python.display()
        );
        assert_eq!(wrong, 0, "{}, {called:?}", python.display());
        right > nameless
    });
    assert!(has_names, "{}, {called:?}", python.display());
}

#[test]
fn each_text_has_its_own_name() {
    for python in some_or_all(&interpreters::supported()) {
        half_or_all(called()).for_each(|called| each_has_its_own_name(python, &called, "0"));
    }
}

/// Likewise where each of two CPUs has some of them, and the other CPU's are in the same place between.
#[test]
fn those_of_two_cpus() {
    let python = interpreters::supported().remove(0);
    each_has_its_own_name(&python, &called().pop().unwrap(), "2");
}

/// No wait has the name of another text than the one that waited then for a thread that does its work, and most have their own.
#[test]
fn those_that_wait() {
    for python in some_or_all(&interpreters::supported()) {
        for called in some_or_all(&called()) {
            let (recording, told) = record(python, called, &["0", "asks"]);
            let first = recording.processes.first().unwrap();
            let is_main = |thread: &&Thread| thread.tid.get() == first.pid.get();
            let main = recording.threads.iter().find(is_main).unwrap().key;
            let waits = recording.requests.waits.iter().filter(|wait| wait.thread == main);
            let (right, wrong, nameless) =
                compare(&recording, &told, waits.map(|wait| (wait.at, wait.stack)));
            eprintln!("{}, {called:?}: {right}, {wrong}, {nameless} of {}", python.display(), told.len());
            assert!(wrong == 0 && right > nameless, "{right} right, {wrong} wrong, {nameless} nameless");
        }
    }
}
