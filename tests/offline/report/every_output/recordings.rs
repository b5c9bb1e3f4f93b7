//! Recordings that outputs may stumble over: next to nothing in them, no Python, no energy, names that mean harm, very many stacks.
//!
//! Leaves out damage, which is done to their bytes (`mod.rs`).

use crate::recording::file::write_all;
use crate::recording::records::{domain, frame, header, reading, sample, slice};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::recording::record::{
    Frame, FrameKind, Host, Process, Record, Sample, StackNode, Summary, Thread,
};
use std::path::Path;

/// Distance of samples, of slices and of readings.
const STEP_NS: u64 = 5_000_000;
/// Of it the program is on the CPU.
const BUSY_NS: u64 = 4_000_000;
/// Steps that are written at once.
const STEPS_AT_ONCE: usize = 20;
/// What the counter counts in a step.
const STEP_UJ: u64 = 50_000;

/// A run of one process and one thread on one CPU.
pub(super) struct Run {
    /// The name of the command, the process and the thread.
    pub(super) name: String,
    pub(super) frames: Vec<Frame>,
    /// Frames by their place, root first.
    pub(super) stacks: Vec<Vec<usize>>,
    /// How many there are; the stacks take turns.
    pub(super) samples: u64,
    /// Steps of time, in each of which the program runs.
    pub(super) steps: u64,
    /// Whether there is a counter.
    pub(super) has_energy: bool,
    /// The machine, where it is said.
    pub(super) host: Option<&'static str>,
}

impl Run {
    /// A second of a Python program that calls a library, half of it in each of two functions.
    pub(super) fn usual() -> Self {
        let frames = vec![python("train", "<module>"), python("train", "step"), frame("sin"), frame("cos")];
        Self {
            name: "python3".to_owned(),
            frames,
            stacks: vec![vec![0, 1, 2], vec![0, 1, 3], vec![0]],
            samples: 200,
            steps: 200,
            has_energy: true,
            host: None,
        }
    }

    /// The time on the CPU.
    pub(super) const fn cpu_ns(&self) -> u64 {
        self.steps * BUSY_NS
    }

    pub(super) fn write(&self, path: &Path) {
        write_all(path, &self.records());
    }

    fn records(&self) -> Vec<Record> {
        let process = Process {
            key: ProcessKey::new(0),
            pid: Pid::new(42),
            parent: None,
            name: self.name.clone(),
            command: vec![self.name.clone()],
            runtime: None,
        };
        let thread = Thread {
            key: ThreadKey::new(0),
            process: ProcessKey::new(0),
            tid: Tid::new(42),
            name: self.name.clone(),
        };
        let mut head = header();
        head.command = vec![self.name.clone()];
        head.sample_hz = 200;
        let mut records = vec![Record::Header(head)];
        let host = |name: &&str| Record::Host(Host { name: (*name).to_owned(), boot: (*name).to_owned() });
        records.extend(self.host.iter().map(host));
        if self.has_energy {
            records.push(Record::Domain(domain()));
        }
        records.extend([Record::Process(process), Record::Thread(thread)]);
        let frames = (0..).zip(&self.frames);
        records.extend(frames.map(|(at, frame)| Record::Frame(FrameId::new(at), frame.clone())));
        let leaves = self.stacks(&mut records);
        let at = |step: u64| 1_000 + step * STEP_NS;
        let leaf = |i: u64| leaves[usize::try_from(i).unwrap() % leaves.len()];
        let of_stack = |i: u64| Sample { stack: leaf(i), ..sample(at(i) + BUSY_NS / 2) };
        // Bit by bit, as they come in a run: what is cut off is a part of them.
        for first in (0..self.steps).step_by(STEPS_AT_ONCE) {
            let steps = first..self.steps.min(first + STEPS_AT_ONCE as u64);
            records.push(Record::Slices(steps.clone().map(|i| slice(at(i), at(i) + BUSY_NS)).collect()));
            let samples = steps.clone().filter(|i| *i < self.samples);
            records.push(Record::Samples(samples.map(of_stack).collect()));
            if self.has_energy {
                let readings = steps.map(|i| reading(at(i), i * STEP_UJ)).collect();
                records.push(Record::Readings(DomainId::new(0), readings));
            }
        }
        if self.has_energy {
            let last = reading(at(self.steps), self.steps * STEP_UJ);
            records.push(Record::Readings(DomainId::new(0), vec![last]));
        }
        let (start, end) = (KtimeNs::from_ns(1_000), KtimeNs::from_ns(at(self.steps)));
        records.push(Record::Summary(Summary { start, end, exit_code: Some(0), ..Summary::default() }));
        records
    }

    /// The nodes of the stacks, each with its parent, and the innermost of each stack.
    fn stacks(&self, records: &mut Vec<Record>) -> Vec<StackId> {
        let mut count = 0;
        let mut leaf = |stack: &Vec<usize>| {
            let mut parent = None;
            for &frame in stack {
                let node = StackNode { parent, frame: FrameId::new(u32::try_from(frame).unwrap()) };
                records.push(Record::Stack(StackId::new(count), node));
                parent = Some(StackId::new(count));
                count += 1;
            }
            parent.unwrap()
        };
        self.stacks.iter().map(&mut leaf).collect()
    }
}

pub(super) fn python(module: &str, name: &str) -> Frame {
    Frame {
        kind: FrameKind::Python,
        module: module.to_owned(),
        file: format!("{module}.py"),
        line: 3,
        first_line: 1,
        ..frame(name)
    }
}

/// No process ran, nothing was read: a header and an end.
pub(super) fn empty(path: &Path) {
    let (start, end) = (KtimeNs::from_ns(1_000), KtimeNs::from_ns(1_000));
    write_all(
        path,
        &[Record::Header(header()), Record::Summary(Summary { start, end, ..Summary::default() })],
    );
}

/// One sample of one stack.
pub(super) fn one_sample() -> Run {
    Run { stacks: vec![vec![0, 1, 2]], samples: 1, steps: 1, ..Run::usual() }
}

/// A native program.
pub(super) fn no_python() -> Run {
    let frames = vec![frame("main"), frame("work")];
    Run { name: "program".to_owned(), frames, stacks: vec![vec![0, 1], vec![0]], ..Run::usual() }
}

/// CPU time alone.
pub(super) fn no_energy() -> Run {
    Run { has_energy: false, ..Run::usual() }
}

/// Names of functions, modules and files, the first one the program's too.
pub(super) fn named(names: &[&str]) -> Run {
    let frames = names.iter().flat_map(|name| {
        let native =
            Frame { module: format!("/lib/{name}"), file: (*name).to_owned(), line: 7, ..frame(name) };
        [python(name, name), python("train", &format!("step {name}")), native]
    });
    let first = (0..names.len()).map(|number| 3 * number);
    let stacks = first.flat_map(|root| [vec![root, root + 1, root + 2], vec![root]]).collect();
    Run { name: names[0].to_owned(), frames: frames.collect(), stacks, ..Run::usual() }
}

/// Ten megabytes of stacks of which no two are equal: one root, and functions with names of 2,600 letters.
pub(super) fn very_many_stacks() -> Run {
    let count: u64 = 4_000;
    let mut frames = vec![python("train", "<module>")];
    frames.extend((0..count).map(|i| frame(&format!("function_{i}_{}", "x".repeat(2_590)))));
    let stacks = (1..frames.len()).map(|i| vec![0, i]).collect();
    Run { frames, stacks, samples: count, steps: count, ..Run::usual() }
}
