//! Stacks against the interpreter's own word: BPF programs load and real Pythons are sampled.
//!
//! A program (`workloads/oracle.py`) writes for each of its regions which frames are above it, with lines; every sample that falls into a
//! region must show exactly these, and C code exactly where C called. Leaves out how many samples there are, but that there are some.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, wherever that happens")]

use energy_trace::ids::StackId;
use energy_trace::profile::record::{FrameKind, Verdict};
use energy_trace::profile::recording::Recording;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the program says of one region.
#[derive(serde::Deserialize)]
struct Region {
    region: String,
    frames: Vec<(String, u32)>,
    /// Functions called from C; `None` where versions differ (loops over generators are inlined from 3.12 on).
    called_from_c: Option<BTreeSet<String>>,
}

/// A Python frame of a sample, outermost first.
#[derive(Debug)]
struct Seen {
    name: String,
    line: u32,
    /// Whether native frames stand between its caller and it.
    called_from_c: bool,
}

/// Interpreters of this machine with a given range of minor versions: pyenv's, and those that `xtask/pythons` unpacked.
fn found_pythons(minors: std::ops::RangeInclusive<u32>) -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let places = [home.join(".pyenv/versions"), home.join(".cache/energy-trace/pythons")];
    let folders = places.iter().flat_map(std::fs::read_dir).flatten().flatten().map(|f| f.path());
    let minor = |folder: &Path| {
        let name = folder.file_name()?.to_str()?;
        name.rsplit('-').next()?.strip_prefix("3.")?.split(['.', 't']).next()?.parse::<u32>().ok()
    };
    let mut out: Vec<PathBuf> = folders
        .filter(|f| minor(f).is_some_and(|m| minors.contains(&m)))
        .map(|f| f.join("bin/python3"))
        .collect();
    out.retain(|p| p.exists());
    out.sort();
    out
}

/// Interpreters of this machine that this version can unwind: the system's own always, and what was found.
fn pythons() -> Vec<PathBuf> {
    let mut out = vec![PathBuf::from("/usr/bin/python3")];
    out.extend(found_pythons(8..=15));
    out
}

/// Records the program under one interpreter; gives the recording and what the program said.
fn record(python: &Path, hz: &str) -> (Recording, Vec<Region>) {
    record_by("kernel", python, hz)
}

/// The same, with native frames unwound by the kernel or by user space.
fn record_by(unwind: &str, python: &Path, hz: &str) -> (Recording, Vec<Region>) {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/oracle.py");
    let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
    let options = ["record", "--power", "none", "--no-svg", "-F", hz, "--unwind", unwind, "--"];
    let arguments = [&options[..], &[python, script, "truth", "0.3"]].concat();
    assert_code(&place.run(&arguments), 0);
    let truth = std::fs::read_to_string(place.path("truth")).unwrap();
    let regions = truth.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (energy_trace::profile::file::read(&place.path("energy-trace.data")).unwrap(), regions)
}

/// The Python frames of a stack, outermost first.
fn python_frames(recording: &Recording, stack: StackId) -> Vec<Seen> {
    let mut out: Vec<Seen> = Vec::new();
    let mut native = false;
    for (_, frame) in recording.frames_of(stack) {
        match frame.kind {
            FrameKind::Python => {
                out.push(Seen { name: frame.name.clone(), line: frame.line, called_from_c: native });
                native = false;
            }
            FrameKind::Native => native = true,
            _ => (),
        }
    }
    out
}

/// Whether a Python frame of a stack has no name: its code object was gone when it was read, as happens to those of a program that ends.
fn has_nameless(recording: &Recording, stack: StackId) -> bool {
    let nameless = "[unknown: Python function";
    recording.frames_of(stack).any(|(_, frame)| frame.name.starts_with(nameless))
}

/// Whether a sample's frames are those of a region. Frames of the thread's own start (`threading`) are not told by the program's regions
/// of other threads, so that the outermost frames are compared as they are.
fn matches(seen: &[Seen], region: &Region, seam: bool) -> bool {
    let above = &seen[..seen.len() - 1];
    above.len() == region.frames.len()
        && above.iter().zip(&region.frames).skip(1).all(|(seen, (name, line))| {
            let by_c = region.called_from_c.as_ref().filter(|_| seam).map(|from_c| from_c.contains(name));
            seen.name == *name && seen.line == *line && by_c.is_none_or(|by_c| seen.called_from_c == by_c)
        })
}

/// Every sample inside a region shows exactly the frames and lines that the interpreter says, for every interpreter of the machine.
#[test]
fn python_frames_are_the_interpreters() {
    for python in pythons() {
        compare("kernel", &python);
    }
}

/// The same where user space unwinds native frames, from copies of the stack.
#[test]
fn user_space_unwinds_as_well() {
    let mut pythons = vec![PathBuf::from("/usr/bin/python3")];
    pythons.extend(found_pythons(9..=9).into_iter().take(1));
    pythons.extend(found_pythons(13..=13).into_iter().take(1));
    for python in pythons {
        compare("user", &python);
    }
}

/// Compares every sample inside a region with what the interpreter says.
fn compare(unwind: &str, python: &Path) {
    let (recording, regions) = record_by(unwind, python, "199");
    let mut hits: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut misses, mut refused) = (Vec::new(), 0);
    for sample in &recording.samples {
        let seen = python_frames(&recording, sample.stack);
        if seen.last().is_none_or(|last| last.name != "spin") {
            continue;
        }
        if has_nameless(&recording, sample.stack) {
            refused += 1;
            continue;
        }
        let seam = matches!(sample.verdict, Verdict::Complete);
        match regions.iter().find(|region| matches(&seen, region, seam)) {
            Some(region) => *hits.entry(&region.region).or_default() += 1,
            None => misses.push(seen),
        }
    }
    let python = python.display();
    let compared = hits.values().sum::<u32>();
    eprintln!(
        "{python}: {compared} samples agree, {} differ, {refused} refused; {}",
        misses.len(),
        verdicts(&recording)
    );
    assert!(refused * 50 < compared, "{python}: {refused} samples have frames without a name");
    assert!(misses.is_empty(), "{python}: {} samples differ, such as {:?}", misses.len(), misses[0]);
    let unseen: Vec<&str> =
        regions.iter().map(|r| r.region.as_str()).filter(|r| !hits.contains_key(r)).collect();
    assert!(unseen.is_empty(), "{python}: no samples in {unseen:?}");
}

/// The frames of a stack in words: names of Python functions, and `map` where C called. Other native frames are left out.
fn calls(recording: &Recording, stack: StackId) -> Vec<&str> {
    let word = |frame: &'_ energy_trace::profile::record::Frame| match frame.kind {
        FrameKind::Python => Some(()),
        FrameKind::Native if frame.name == "map_next" => Some(()),
        _ => None,
    };
    let frames = recording.frames_of(stack).filter(|(_, frame)| word(frame).is_some());
    frames.map(|(_, frame)| if frame.name == "map_next" { "map" } else { frame.name.as_str() }).collect()
}

/// While frames are pushed and popped, Python frames are a chain that can be, and C stands where it called; no sample is misplaced.
#[test]
fn calls_and_returns() {
    let chains = [
        vec!["<module>", "main", "a", "map", "b", "c", "map", "d"],
        vec!["<module>", "main", "f", "e", "map", "d"],
    ];
    let without_c = |chain: &Vec<&'static str>| -> Vec<&'static str> {
        chain.iter().copied().filter(|&word| word != "map").collect()
    };
    let script = tests_dir().join("workloads/calls.py");
    for python in pythons() {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
        let arguments = ["record", "--power", "none", "--no-svg", "-F", "997", "--", python, script, "2"];
        assert_code(&place.run(&arguments), 0);
        let recording = energy_trace::profile::file::read(&place.path("energy-trace.data")).unwrap();
        // Stripped interpreters do not name C functions: only Python's own chain can be compared.
        let named = recording.frames.iter().any(|f| f.name == "map_next");
        let (mut compared, mut deepest, mut differ) = (0, 0, Vec::new());
        for sample in
            recording.samples.iter().filter(|s| matches!(s.verdict, Verdict::Complete | Verdict::Healed(_)))
        {
            let seen = calls(&recording, sample.stack);
            if seen.get(1).is_none_or(|second| *second != "main") {
                continue;
            }
            compared += 1;
            deepest = deepest.max(seen.len());
            // C may stand below the innermost Python function: it is about to call, or has returned.
            let can_be =
                |chain: &Vec<_>| chain.starts_with(&seen) || !named && without_c(chain).starts_with(&seen);
            if !chains.iter().any(can_be) {
                differ.push(seen);
            }
        }
        eprintln!("{python}: {} of {compared} samples differ; {}", differ.len(), verdicts(&recording));
        assert!(
            differ.is_empty(),
            "{python}: {} of {compared} differ, such as {:?}",
            differ.len(),
            differ[0]
        );
        assert!(compared > 200 && deepest >= 6, "{python}: {compared}, {deepest} deep");
    }
}

/// How many samples have which verdict.
fn verdicts(recording: &Recording) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for sample in &recording.samples {
        *counts.entry(format!("{:?}", sample.verdict)).or_default() += 1;
    }
    counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
}

/// Once the tables are built, native frames reach the outermost frame, from a thread's start too.
#[test]
fn native_frames_reach_the_start() {
    let (recording, _) = record(Path::new("/usr/bin/python3"), "199");
    let later = &recording.samples[recording.samples.len() / 4..];
    let whole = later.iter().filter(|s| matches!(s.verdict, Verdict::Complete | Verdict::Healed(_))).count();
    assert!(whole * 100 >= later.len() * 99, "{whole} of {} are whole", later.len());
    let outermost = |sample: &energy_trace::profile::record::Sample| {
        recording.frames_of(sample.stack).next().unwrap().1.name.clone()
    };
    let roots: BTreeSet<String> =
        later.iter().filter(|s| s.verdict == Verdict::Complete).map(outermost).collect();
    assert!(roots.contains("_start"), "{roots:?}");
}

/// A version whose layout is not known is refused by name, its native frames stay, and every sample says so.
#[test]
fn unknown_versions_are_refused_by_name() {
    // A machine without one has none that would be refused.
    for python in found_pythons(0..=7) {
        refuse(&python);
    }
}

fn refuse(python: &Path) {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let spin = "import time\nend = time.time() + 1\nwhile time.time() < end: pass";
    let arguments = ["record", "--power", "none", "--no-svg", "--", python.to_str().unwrap(), "-c", spin];
    assert_code(&place.run(&arguments), 0);
    let recording = energy_trace::profile::file::read(&place.path("energy-trace.data")).unwrap();
    let runtime = recording.processes.iter().find_map(|p| p.runtime.clone()).unwrap();
    assert!(runtime.contains("CPython") && runtime.contains("not known"), "{runtime}");
    let native = recording.frames.iter().filter(|f| f.kind == FrameKind::Native).count();
    assert!(native > 3, "{native} native frames");
    assert!(
        recording.samples.iter().all(|s| !matches!(s.verdict, Verdict::Complete))
            || recording.samples.len() < 5
    );
}

/// Threads, children and what they execute are followed: each has its own row.
#[test]
fn children_are_followed() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = "import os, subprocess, time
def burn(s):
    end = time.process_time() + s
    while time.process_time() < end: pass
if os.fork() == 0:
    burn(0.4); os._exit(0)
os.wait()
subprocess.run(['/usr/bin/python3', '-c', 'for i in range(5000000): pass'])
burn(0.2)";
    let arguments =
        ["record", "--power", "none", "--no-svg", "-F", "199", "--", "/usr/bin/python3", "-c", script];
    assert_code(&place.run(&arguments), 0);
    let recording = energy_trace::profile::file::read(&place.path("energy-trace.data")).unwrap();
    let sampled: BTreeSet<_> =
        recording.samples.iter().map(|s| recording.threads[s.thread.index()].process).collect();
    // A child may be sampled before it executes another program: then that is a fourth.
    assert!((3..=4).contains(&sampled.len()), "{:?}", recording.processes);
    let forked = |p: &&energy_trace::profile::record::Process| p.parent.is_some();
    assert!(recording.processes.iter().filter(forked).count() >= 2, "{:?}", recording.processes);
    // The forked child's Python frames are named like its parent's.
    let burns = recording.frames.iter().filter(|f| f.kind == FrameKind::Python && f.name == "burn").count();
    assert!(burns > 0);
}
