//! What the judge looks at: recorded programs on real counters first, then one simulated world for each thing that can go wrong.
//!
//! Leaves out how they are made (`tests/scenarios`).

use crate::options::Options;
use energy_trace_model::recording::{Recording, file};
use energy_trace_scenarios::traced::{self, Kind, Machine, Trace};
use energy_trace_scenarios::worlds;
use energy_trace_scenarios::worlds::catalogue::{self, Entry};
use energy_trace_scenarios::worlds::measure::Truth;
use energy_trace_scenarios::worlds::real::Chip;
use energy_trace_scenarios::worlds::recording::Recorder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The recorded programs that nothing is chosen on.
const HELD_OUT: [&str; 3] = ["jax", "onnx", "tf1"];
const HZ: u64 = 499;
/// Simulated worlds, with what can go wrong in each.
const WORLDS: [(&str, &str); 15] = [
    ("W6d", "a team of 8 spins at barriers"),
    ("W6e", "a team of 8 sleeps at barriers"),
    ("W6h", "memory-bound code slows others"),
    ("W6j", "shared parts draw power"),
    ("W1a", "a loop shorter than samples show"),
    ("W1d", "a loop in constant order"),
    ("W2e", "functions faster than samples"),
    ("W5a", "power by data"),
    ("W5c", "power lags 50 ms"),
    ("W5d", "all power drifts"),
    ("W5e", "frequency steps, not recorded"),
    ("W7a", "preempted by changing others"),
    ("W7d", "the CPU is taken away"),
    ("W9", "turns of 0.5 ms"),
    ("W10c", "a counter lags 20 ms"),
];
/// A loop that evenly spaced samples come in step with.
const IN_STEP: &str = "W1a";

/// A column of the table. Their order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Recorded { is_held_out: bool, has_neighbours: bool },
    World { name: &'static str, what: &'static str, in_step: bool },
}

impl Group {
    pub(crate) fn title(self) -> String {
        match self {
            Self::Recorded { is_held_out, has_neighbours } => {
                let seen = if is_held_out { "held out" } else { "seen" };
                let beside = if has_neighbours { "beside neighbours" } else { "quiet" };
                format!("recorded, {seen}, {beside}")
            }
            Self::World { name, what, in_step } => {
                let even = if in_step { ", samples evenly spaced in step with it" } else { "" };
                format!("{name} {what}{even}")
            }
        }
    }

    /// A short name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Recorded { .. } => "recorded",
            Self::World { in_step: true, .. } => "in step",
            Self::World { name, .. } => name,
        }
    }
}

/// One thing that is recorded, with any seed.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) group: Group,
    of: Of,
}

enum Of {
    Traced(Arc<Trace>),
    World(Entry, Recorder),
}

impl Case {
    /// What it is called while it runs.
    pub(crate) fn title(&self) -> String {
        format!("{} ({})", self.name, self.group.title())
    }

    pub(crate) fn record(&self, seed: u64) -> (Recording, Truth) {
        match &self.of {
            Of::Traced(trace) => {
                // All kinds of watts, and both counters, in turns.
                let kind = Kind::ALL[seed as usize % Kind::ALL.len()];
                let chip = if (seed + seed / 4).is_multiple_of(2) { Chip::IceLake } else { Chip::Broadwell };
                traced::record(trace, (kind, Machine::Real(chip)), Recorder::usual(HZ), seed)
            }
            Of::World(entry, recorder) => {
                let recorded = worlds::record(entry, *recorder, seed);
                (recorded.recording, recorded.truth)
            }
        }
    }
}

/// All that are asked for; those that take longest first.
pub(crate) fn all(options: &Options) -> Vec<Case> {
    let mut cases = if options.quick { vec![] } else { of_worlds() };
    cases.retain(|case| options.wants(&case.name));
    let programs = programs(&options.folder);
    for path in programs.iter().filter(|path| options.wants(&name_of(path))) {
        cases.extend(of_program(path));
    }
    cases
}

fn of_worlds() -> Vec<Case> {
    let entries = catalogue::all();
    let mut cases = vec![];
    let mut add = |(name, what): (&'static str, &'static str), in_step: bool| {
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return };
        let usual = Recorder::usual(HZ);
        let recorder = if in_step { Recorder { hz: 100, jitter: 0.0, ..usual } } else { usual };
        let group = Group::World { name, what, in_step };
        cases.push(Case { name: name.to_owned(), group, of: Of::World(*entry, recorder) });
    };
    WORLDS.into_iter().for_each(|world| add(world, false));
    WORLDS.into_iter().filter(|(name, _)| *name == IN_STEP).for_each(|world| add(world, true));
    cases
}

/// The traces in a folder, by name.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "data"))
        .collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// A program alone, and beside the processes that ran when it was recorded.
fn of_program(path: &Path) -> Vec<Case> {
    let name = name_of(path);
    let trace = || file::read(path).ok().and_then(Trace::of);
    let is_held_out = HELD_OUT.contains(&name.as_str());
    let case = |has_neighbours: bool| {
        let trace = if has_neighbours { trace()? } else { trace()?.alone() };
        let group = Group::Recorded { is_held_out, has_neighbours };
        Some(Case { name: name.clone(), group, of: Of::Traced(Arc::new(trace)) })
    };
    [true, false].into_iter().filter_map(case).collect()
}
