//! Stacks of real Pythons: BPF programs load and sample them.
//!
//! Calls and returns all the time, native frames to the thread's start, versions that are refused, children. Leaves out what
//! `oracle.rs` compares: the frames of programs that know their own.

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{FrameKind, Sample, StackStatus};
use energy_trace_sentences::runtime;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Records the oracle's program under one interpreter.
fn record(python: &Path) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/oracle.py");
    let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
    let arguments =
        ["record", "--power", "none", "--no-svg", "-F", "199", "--", python, script, "truth", "0.1"];
    assert_code(&place.run(&arguments), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// The frames of a stack in words: names of Python functions, and `map` where C called. Other native frames are left out.
fn calls(recording: &Recording, stack: StackId) -> Vec<&str> {
    let word = |frame: &'_ energy_trace_model::recording::record::Frame| match frame.kind {
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
    for python in interpreters::of_each_kind() {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
        let arguments = ["record", "--power", "none", "--no-svg", "-F", "997", "--", python, script, "1"];
        assert_code(&place.run(&arguments), 0);
        let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
        // Stripped interpreters do not name C functions: only Python's own chain can be compared.
        let named = recording.frames.iter().any(|f| f.name == "map_next");
        let (mut compared, mut nameless, mut deepest) = (0, 0, 0);
        let mut differ = Vec::new();
        for sample in recording
            .samples
            .iter()
            .filter(|s| matches!(s.status, StackStatus::Complete | StackStatus::Recovered(_)))
        {
            // First: `main` may be the one without a name.
            if has_nameless(&recording, sample.stack) {
                nameless += 1;
                continue;
            }
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
        eprintln!(
            "{python}: {} of {compared} samples differ, {nameless} lack a name; {}",
            differ.len(),
            verdicts(&recording)
        );
        assert!(
            differ.is_empty(),
            "{python}: {} of {compared} differ, such as {:?}",
            differ.len(),
            differ[0]
        );
        assert!(compared > 200 && deepest >= 6, "{python}: {compared}, {deepest} deep");
        // A function of which nobody can see any more that it is still the one that was sampled has no name: when its process is gone, and in
        // its first moments. How many samples that is depends on how busy the machine is (seen: 8 %; 38 % where every fourth name is lost).
        assert!(nameless * 6 < compared, "{python}: {nameless} have no name, beside {compared}");
    }
}

/// Whether a Python function of the stack has no name.
fn has_nameless(recording: &Recording, stack: StackId) -> bool {
    recording.frames_of(stack).any(|(_, frame)| frame.name == "[unknown: Python function that is gone]")
}

/// How many samples have which verdict.
fn verdicts(recording: &Recording) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for sample in &recording.samples {
        *counts.entry(format!("{:?}", sample.status)).or_default() += 1;
    }
    counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
}

/// Once the tables are built, native frames reach the outermost frame, from a thread's start too.
#[test]
fn native_frames_reach_the_start() {
    let recording = record(Path::new("/usr/bin/python3"));
    let later = &recording.samples[recording.samples.len() / 4..];
    let whole = later
        .iter()
        .filter(|s| matches!(s.status, StackStatus::Complete | StackStatus::Recovered(_)))
        .count();
    assert!(whole * 100 >= later.len() * 99, "{whole} of {} are whole", later.len());
    let outermost = |sample: &Sample| recording.frames_of(sample.stack).next().unwrap().1.name.clone();
    let roots: BTreeSet<String> =
        later.iter().filter(|s| s.status == StackStatus::Complete).map(outermost).collect();
    assert!(roots.contains("_start"), "{roots:?}");
}

/// Samples inside lists in each other that are being written out, a recursion of C functions: their verdicts and native frames.
fn nested(lists: usize, options: &[&str]) -> Vec<(StackStatus, usize)> {
    let script = format!(
        "import time
class Spin:
    def __repr__(self):
        # Long enough on a busy machine too.
        end, enough = time.time() + 1, time.process_time() + 0.6
        while time.time() < end or time.process_time() < enough: pass
        return ''
inner = Spin()
for _ in range({lists}): inner = [inner]
repr(inner)"
    );
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut arguments = vec!["record", "--power", "none", "--no-svg", "-F", "199"];
    arguments.extend(options);
    arguments.extend(["--", "/usr/bin/python3", "-c", &script]);
    assert_code(&place.run(&arguments), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let native = |stack| recording.frames_of(stack).filter(|(_, f)| f.kind == FrameKind::Native).count();
    let inside = |stack| recording.frames_of(stack).any(|(_, frame)| frame.name.ends_with("__repr__"));
    let samples = recording.samples.iter().filter(|sample| inside(sample.stack));
    samples.map(|sample| (sample.status, native(sample.stack))).collect()
}

/// More than 400 native frames are whole down to the thread's start, with this kernel's helpers and with those of the oldest.
#[test]
fn deep_native_recursion_is_whole() {
    let shallow = nested(100, &[]).iter().map(|(_, frames)| *frames).min().unwrap();
    // Compilers make one frame or two of each list.
    let lists = if shallow > 200 { 220 } else { 440 };
    for options in [&[][..], &["--oldest-kernel"]] {
        let samples = nested(lists, options);
        let whole =
            |(verdict, frames): &&(StackStatus, usize)| *verdict == StackStatus::Complete && *frames >= 440;
        let whole = samples.iter().filter(whole).count();
        assert!(whole > 50 && whole * 100 >= samples.len() * 98, "{whole} of {}: {samples:?}", samples.len());
    }
}

/// A version whose layout is not known is refused by name, its native frames stay, and every sample says so.
#[test]
fn unknown_versions_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    refuse(&stand_in(folder.path()), &[], "3.5");
}

/// A program that says of itself that it is CPython 3.5, and spins: not every machine has one that would be refused.
fn stand_in(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("stand_in.c"), folder.join("python3.5"));
    let text = "#include <time.h>
        unsigned long Py_Version = 0x030503f0;
        char _PyRuntime[4096] = {1};
        __attribute__((noinline)) long inner(long i) { for (int k = 0; k < 1000; k++) i += k ^ i; return i; }
        __attribute__((noinline)) long outer(long i) { return inner(i) + 1; }
        int main(void) { long i = 0; while (clock() < CLOCKS_PER_SEC) i = outer(i); return i == 1; }";
    std::fs::write(&source, text).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-O1", "-rdynamic", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().unwrap().success());
    program
}

fn refuse(python: &Path, arguments: &[&str], version: &str) {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let options = ["record", "--power", "none", "--no-svg", "--", python.to_str().unwrap()];
    assert_code(&place.run(&[&options, arguments].concat()), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let runtime = recording.processes.iter().find_map(|p| p.runtime.as_ref().map(runtime)).unwrap();
    assert!(runtime.contains("CPython") && runtime.contains("not known"), "{runtime}");
    assert!(runtime.contains(version), "{runtime}");
    let native = recording.frames.iter().filter(|f| f.kind == FrameKind::Native).count();
    assert!(native > 3, "{native} native frames");
    assert!(recording.frames.iter().all(|f| f.kind != FrameKind::Python), "{runtime}");
    // Before the interpreter is found, in the first milliseconds, a stack may be whole as it is.
    let whole = recording.samples.iter().filter(|s| matches!(s.status, StackStatus::Complete)).count();
    assert!(recording.samples.len() > 20 && whole <= 2, "{whole} of {} are whole", recording.samples.len());
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
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let sampled: BTreeSet<_> =
        recording.samples.iter().map(|s| recording.threads[s.thread.index()].process).collect();
    // A child may be sampled before it executes another program: then that is a fourth.
    assert!((3..=4).contains(&sampled.len()), "{:?}", recording.processes);
    let forked = |p: &&energy_trace_model::recording::record::Process| p.parent.is_some();
    assert!(recording.processes.iter().filter(forked).count() >= 2, "{:?}", recording.processes);
    // The forked child's Python frames are named like its parent's.
    let burns = recording.frames.iter().filter(|f| f.kind == FrameKind::Python && f.name == "burn").count();
    assert!(burns > 0);
}

/// A worker thread of io_uring runs in the kernel alone, with the program's memory and registers of user mode that are zero: its stacks are
/// whole without frames of the program.
#[test]
fn workers_of_io_uring_run_nothing_of_the_program() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/io_uring.py");
    let options = ["record", "--power", "none", "--no-svg", "-F", "499", "--", "/usr/bin/python3"];
    let output = place.run(&[&options[..], &[script.to_str().unwrap(), "1"]].concat());
    if output.status.code() == Some(77) && std::env::var_os("ENERGY_TRACE_CI").is_none() {
        return eprintln!("not tested: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_code(&output, 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let of_workers = |sample: &&Sample| recording.threads[sample.thread.index()].name.starts_with("iou-wrk");
    let samples: Vec<&Sample> = recording.samples.iter().filter(of_workers).collect();
    assert!(samples.len() > 20, "{} samples of workers", samples.len());
    for sample in samples {
        let frames: Vec<_> = recording.frames_of(sample.stack).map(|(_, frame)| frame).collect();
        assert_eq!(sample.status, StackStatus::Complete, "{frames:?}");
        assert!(frames.iter().all(|frame| frame.kind == FrameKind::Kernel), "{frames:?}");
    }
}
