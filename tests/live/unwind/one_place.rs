//! Code that lies where other code lay a moment ago: texts that a program compiles and runs one after the other.
//!
//! Leaves out machine code that is made at run time (`symbols`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::Sample;
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

/// Records the program: what was recorded, and what it says itself.
fn record(python: &Path, (file, name): &(String, String)) -> (Recording, Vec<Told>) {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/one_place.py");
    let command = [python.to_str().unwrap(), script.to_str().unwrap(), "0.01", "8", "5", file, name];
    let arguments = ["record", "--power", "none", "--no-svg", "-F", "999", "--"];
    let output = place.run(&[&arguments[..], &command].concat());
    assert_code(&output, 0);
    let told = |line: &str| {
        let mut words = line.split(' ').map(|word| word.parse::<u64>().ok());
        Some((u32::try_from(words.next()??).ok()?, words.next()??, words.next()??))
    };
    let told = String::from_utf8_lossy(&output.stdout).lines().filter_map(told).collect();
    (read(&place.path("energy-trace.data")).unwrap(), told)
}

/// The texts that a sample names.
fn named(recording: &Recording, sample: &Sample) -> Vec<u32> {
    let frames = recording.frames_of(sample.stack).map(|(_, frame)| format!("{} {}", frame.file, frame.name));
    let number = |frame: String| frame.split_once("text_")?.1.get(..3)?.parse().ok();
    frames.filter_map(number).collect()
}

/// The text that ran at that time, if any.
fn running(told: &[Told], at: KtimeNs) -> Option<u32> {
    told.iter().find(|(_, from, to)| (*from..*to).contains(&at.as_ns())).map(|(number, _, _)| *number)
}

/// Samples with their text's name, with another's, and with none.
fn compare(recording: &Recording, told: &[Told]) -> (u32, u32, u32) {
    let (mut right, mut wrong, mut nameless) = (0, 0, 0);
    for sample in &recording.samples {
        let Some(truth) = running(told, sample.at) else { continue };
        let names = named(recording, sample);
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
fn each_has_its_own_name(python: &Path, called: &(String, String)) {
    let has_names = (0..3).any(|_| {
        let (recording, told) = record(python, called);
        assert_eq!(told.len(), 40, "{}", python.display());
        let (right, wrong, nameless) = compare(&recording, &told);
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
        half_or_all(called()).for_each(|called| each_has_its_own_name(python, &called));
    }
}
