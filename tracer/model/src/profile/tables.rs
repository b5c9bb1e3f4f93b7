//! A profile in memory: joules per thread and stack, the ledger that they add up in, and what a report needs beside them.
//!
//! Made by `energy-trace-attribution`, shown by `energy-trace-report`. Leaves out how it comes about.

use super::certainty::Certainty;
use super::diagnostics::Diagnostic;
use super::options::Options;
use super::over_time::PartOfRun;
use super::phases::Phases;
use super::run::Run;
use super::work::{PerWork, Work};
use crate::ids::{FrameId, ProcessKey, StackId, ThreadKey};
use crate::recording::record::{
    CallCount, CalledOn, DomainClass, Frame, FrameKind, InputSizes, Process, Quality, StackNode, Thread,
};
use crate::recording::{PublicNames, Recording, frames_of};
use crate::units::MicroJoules;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut, Range, SubAssign};

/// Energy by class of domain. `psys` contains the others and `core` is part of `package`: `total` leaves both out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyByClass([MicroJoules; 5]);

impl EnergyByClass {
    /// Package, DRAM and GPU together: the classes that add up.
    pub fn total(&self) -> MicroJoules {
        self.iter().filter(|(class, _)| class.adds_up()).map(|(_, energy)| energy).sum()
    }

    /// The classes with their energy.
    pub fn iter(&self) -> impl Iterator<Item = (DomainClass, MicroJoules)> + '_ {
        DomainClass::ALL.into_iter().zip(self.0)
    }
}

impl Index<DomainClass> for EnergyByClass {
    type Output = MicroJoules;
    fn index(&self, class: DomainClass) -> &MicroJoules {
        &self.0[class as usize]
    }
}

impl IndexMut<DomainClass> for EnergyByClass {
    fn index_mut(&mut self, class: DomainClass) -> &mut MicroJoules {
        &mut self.0[class as usize]
    }
}

impl SubAssign for EnergyByClass {
    fn sub_assign(&mut self, other: Self) {
        for class in DomainClass::ALL {
            self[class] -= other[class];
        }
    }
}

impl AddAssign for EnergyByClass {
    fn add_assign(&mut self, other: Self) {
        for class in DomainClass::ALL {
            self[class] += other[class];
        }
    }
}

/// Where one domain's energy went. Always, to the microjoule:
/// `measured = target + other + idle + uncore + residual + Σ unattributed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    /// The domain's name.
    pub domain: String,
    /// Its class.
    pub class: DomainClass,
    /// Where the numbers come from.
    pub quality: Quality,
    /// What the counter (or the model) says for the recording's time.
    pub measured: MicroJoules,
    /// Charged to the target's threads.
    pub target: MicroJoules,
    /// Charged to other processes and the kernel's own threads.
    pub other: MicroJoules,
    /// The idle baseline.
    pub idle: MicroJoules,
    /// Shared parts of the socket that are on while any core is (0 until calibrated).
    pub uncore: MicroJoules,
    /// What was left in windows in which nobody ran; negative where the baseline was too high.
    pub residual: MicroJoules,
    /// What could not be charged, by reason.
    pub unattributed: BTreeMap<UnattributedReason, MicroJoules>,
}

impl LedgerRow {
    /// A row without any energy.
    pub const fn empty(domain: String, class: DomainClass, quality: Quality) -> Self {
        let zero = MicroJoules::ZERO;
        Self {
            domain,
            class,
            quality,
            measured: zero,
            target: zero,
            other: zero,
            idle: zero,
            uncore: zero,
            residual: zero,
            unattributed: BTreeMap::new(),
        }
    }

    /// `measured` minus all its parts: zero, or the ledger is broken.
    pub fn imbalance(&self) -> MicroJoules {
        let parts = [self.target, self.other, self.idle, self.uncore, self.residual];
        self.measured - parts.into_iter().chain(self.unattributed.values().copied()).sum::<MicroJoules>()
    }

    /// The quality of `target` and `other`: a counter that was split is apportioned, whatever the counter is worth.
    pub fn split_quality(&self) -> Quality {
        self.quality.max(Quality::Apportioned)
    }
}

/// Why energy is in nobody's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnattributedReason {
    /// A GPU's, of which no launches are recorded.
    NoLaunchData,
    /// A GPU's whose meter looks at a part of the time, and counted other than the kernels' times say.
    SensorBlindSpot,
    /// The counter showed it in a stretch of time in which the run contradicts the counter.
    CounterDoubted,
    /// A module's, which the meter of the whole machine holds: functions have their part of that one's.
    HeldByMachine,
}

impl UnattributedReason {
    /// Its name in JSON and in folded stacks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLaunchData => "no launch data",
            Self::SensorBlindSpot => {
                "the meter looks at a part of the time, and counted other than the kernels' times say"
            }
            Self::CounterDoubted => "the counter is not believed",
            Self::HeldByMachine => "in the whole machine's energy, which is split instead",
        }
    }
}

/// What one thread spent in one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// The thread.
    pub thread: ThreadKey,
    /// The stack; `None` is time that no sample saw (`[unsampled]`).
    pub stack: Option<StackId>,
    /// Its energy.
    pub energy: EnergyByClass,
    /// Its energy if all who ran at the same time drew the same power: what a split by CPU time alone gives.
    pub by_time: EnergyByClass,
    /// Its time on a CPU in nanoseconds.
    pub time_ns: u64,
    /// The samples that saw it.
    pub samples: u64,
    /// The thread on whose stack it stands, where that is another one (logical view).
    pub on_behalf_of: Option<ThreadKey>,
}

/// One of several recordings that were merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartOfProfile {
    /// Its label: a rank, a host.
    pub label: String,
    /// The numbers of its processes.
    pub processes: Range<u32>,
    /// The rank that it was recorded as.
    pub rank: Option<u32>,
}

/// What a recording means. Per class, exactly: Σ rows = Σ ledger targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// How energy was attributed.
    pub options: Options,
    /// Facts of the run.
    pub run: Run,
    /// Programs, by `ProcessKey`.
    pub processes: Vec<Process>,
    /// Threads, by `ThreadKey`.
    pub threads: Vec<Thread>,
    /// Frames, by `FrameId`: the recording's, then those that the logical view adds.
    pub frames: Vec<Frame>,
    /// Stacks, by `StackId`: the recording's, then those that the logical view adds.
    pub stacks: Vec<StackNode>,
    /// Build ids in hex, by `Frame::module`, where files have one.
    pub build_ids: BTreeMap<String, String>,
    /// What users call functions of packages.
    pub public_names: PublicNames,
    /// On what the functions of frames were called, where that tells more than their names.
    pub called_on: BTreeMap<FrameId, CalledOn>,
    /// Paths of processes' control groups; who is not here has its parent's.
    pub control_groups: BTreeMap<ProcessKey, String>,
    /// How often functions were called, where that was counted.
    pub calls: Vec<CallCount>,
    /// What functions were called with, where that was asked for.
    pub input_sizes: Vec<InputSizes>,
    /// Units of work, and the energy of the time in which they were done.
    pub work: Vec<Work>,
    /// The unit of work that it is shown by, where one was chosen.
    pub per_work: Option<PerWork>,
    /// Stretches that were told apart by what ran, where that was asked for.
    pub phases: Option<Phases>,
    /// One row a domain.
    pub ledger: Vec<LedgerRow>,
    /// One row a thread and stack.
    pub rows: Vec<ProfileRow>,
    /// How certain the rows are.
    pub certainty: Certainty,
    /// The part of the run that it is of; `None`: all of it.
    pub part: Option<PartOfRun>,
    /// Whose processes these are, where several recordings were merged.
    pub parts: Vec<PartOfProfile>,
    /// What the attribution found that the reader must know.
    pub diagnostics: Vec<Diagnostic>,
}

impl Profile {
    /// What a report needs of a recording, before any energy is attributed: no rows and no ledger.
    pub fn of_run(recording: &Recording) -> Self {
        Self {
            run: Run::of(recording),
            processes: recording.processes.clone(),
            threads: recording.threads.clone(),
            frames: recording.frames.clone(),
            stacks: recording.stacks.clone(),
            build_ids: recording.build_ids.clone(),
            public_names: recording.public_names.clone(),
            called_on: recording.called_on.clone(),
            control_groups: recording.control_groups.clone(),
            calls: recording.calls.clone(),
            input_sizes: recording.input_sizes.clone(),
            ..Self::default()
        }
    }

    /// The label of the recording that a process is of, where several were merged.
    pub fn label_of(&self, process: ProcessKey) -> Option<&str> {
        self.part_of(process).map(|part| part.label.as_str())
    }

    /// The rank as which the recording was made that a process is of.
    pub fn rank_of(&self, process: ProcessKey) -> Option<u32> {
        self.part_of(process).map_or(self.run.rank, |part| part.rank)
    }

    fn part_of(&self, process: ProcessKey) -> Option<&PartOfProfile> {
        self.parts.iter().find(|part| part.processes.contains(&process.get()))
    }

    /// The path of each process's control group: its own, or its parent's, who has a smaller number.
    pub fn groups_of_processes(&self) -> Vec<Option<&str>> {
        let mut groups: Vec<Option<&str>> = Vec::with_capacity(self.processes.len());
        for process in &self.processes {
            let parents = process.parent.and_then(|parent| groups.get(parent.index()).copied().flatten());
            groups.push(self.control_groups.get(&process.key).map(String::as_str).or(parents));
        }
        groups
    }

    /// The frames of code of a stack from the outermost one to the innermost; with `.rev()` the other way round. Ranges have a table of their own.
    ///
    /// Ends early, never panics, on an id that is not in the tables.
    pub fn frames_of(&self, stack: StackId) -> impl DoubleEndedIterator<Item = (FrameId, &Frame)> {
        frames_of(&self.stacks, &self.frames, stack).filter(|(_, frame)| frame.kind != FrameKind::Range)
    }

    /// The ranges of a stack from the outermost one to the innermost.
    pub fn ranges_of(&self, stack: StackId) -> impl DoubleEndedIterator<Item = (FrameId, &Frame)> {
        frames_of(&self.stacks, &self.frames, stack).filter(|(_, frame)| frame.kind == FrameKind::Range)
    }
}
