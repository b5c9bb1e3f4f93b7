//! A recording in memory: the records of one run, sorted into tables.
//!
//! Leaves out how it lies in a file (`file.rs`).

use super::public_names::PublicNames;
use super::record::{
    BackgroundProcess, CallCount, CalledOn, Clocks, CpuTotals, Domain, DomainClass, Frame, GpuMeter, GpuUse,
    GpuWork, Header, Host, InputSizes, Origin, Process, Project, Reading, RecordingDiagnostic, Sample,
    SensorCost, SensorSeries, Slice, Span, StackNode, Summary, Thread, Unsampled, Wait, Wake, WorkSeries,
};
use crate::clock::KtimeNs;
use crate::ids::{CpuId, DomainId, FrameId, ProcessKey, StackId, ThreadKey};
use crate::units::MicroWatts;
use std::collections::{BTreeMap, BTreeSet};

/// One run, whole in memory. Ids are positions in the tables. The default is a run in which nothing happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The run.
    pub header: Header,
    /// The machine, where that is known.
    pub host: Option<Host>,
    /// Power domains, by `DomainId`.
    pub domains: Vec<Domain>,
    /// Readings of each counter domain, in time order.
    pub readings: BTreeMap<DomainId, Vec<Reading>>,
    /// What was learned of the GPUs beside their readings.
    pub gpu_facts: GpuFacts,
    /// CPUs that share a core; empty where none are known to.
    pub cores: Vec<Vec<CpuId>>,
    /// How fast each CPU's clock ran.
    pub clocks: Clocks,
    /// What sensors of warmth and clocks said, by `SensorId`.
    pub sensors: Vec<SensorSeries>,
    /// What reading them took; `None` where there are none, or the recording was cut off.
    pub sensor_cost: Option<SensorCost>,
    /// Where the program's code comes from.
    pub project: Option<Project>,
    /// What functions were called with, where that was asked for.
    pub input_sizes: Vec<InputSizes>,
    /// When the machine woke up from sleep.
    pub sleeps: Vec<KtimeNs>,
    /// Programs, by `ProcessKey`.
    pub processes: Vec<Process>,
    /// Threads, by `ThreadKey`.
    pub threads: Vec<Thread>,
    /// Frames, by `FrameId`, with the names that were found.
    pub frames: Vec<Frame>,
    /// Stacks, by `StackId`.
    pub stacks: Vec<StackNode>,
    /// Build ids in hex, by `Frame::module`, where files have one.
    pub build_ids: BTreeMap<String, String>,
    /// What users call functions of packages.
    pub public_names: PublicNames,
    /// On what the functions of frames were called, where that tells more than their names.
    pub called_on: BTreeMap<FrameId, CalledOn>,
    /// Paths of processes' control groups; who is not here has its parent's, and of whom it is empty had ended
    /// before anybody looked.
    pub control_groups: BTreeMap<ProcessKey, String>,
    /// The rank of the program among those that were started with it.
    pub rank: Option<u32>,
    /// How often functions were called, where that was counted.
    pub calls: Vec<CallCount>,
    /// Counters of work and what they said, by `WorkId`.
    pub work: Vec<WorkSeries>,
    /// Processes that are not targets, by `BackgroundKey`.
    pub background: Vec<BackgroundProcess>,
    /// On-CPU time, ordered by CPU and start.
    pub slices: Vec<Slice>,
    /// CPU time that was summed and is not laid out yet: none in a whole recording.
    pub totals: Vec<CpuTotals>,
    /// Stretches of targets' time that no sample saw, ordered by CPU and start.
    pub unsampled: Vec<Unsampled>,
    /// Samples, ordered by time.
    pub samples: Vec<Sample>,
    /// From when on each thread was in which span, in time order.
    pub spans: BTreeMap<ThreadKey, Vec<(KtimeNs, Span)>>,
    /// What tells for whom threads work.
    pub requests: Requests,
    /// What GPUs were given to do.
    pub gpu: GpuWork,
    /// Counters and diagnostics; `None` when the recording was cut off.
    pub summary: Option<Summary>,
    /// The recordings that it was merged of; then it has nothing of its own.
    pub parts: Vec<Part>,
    /// What was found when it was read: where it was cut off. `attribute` hands it on in its profile.
    pub diagnostics: Vec<RecordingDiagnostic>,
}

/// A recording that is a part of a merged one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// What tells it from the others: a rank, a host.
    pub label: String,
    /// All of it.
    pub recording: Recording,
}

/// What was learned of GPUs beside their readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFacts {
    /// How the meter of each behaves.
    pub meters: BTreeMap<DomainId, GpuMeter>,
    /// Which processes kept each busy, in the order in which it was sampled.
    pub uses: BTreeMap<DomainId, Vec<GpuUse>>,
}

/// What tells for whom threads work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Python threads that went to sleep, ordered by time.
    pub waits: Vec<Wait>,
    /// Threads that were woken, ordered by time.
    pub wakes: Vec<Wake>,
    /// Frames in which workers of pools wait for tasks.
    pub pool_loops: BTreeSet<FrameId>,
}

impl Recording {
    /// Whether one of the programs used a GPU while its idle power was to be measured.
    pub fn used(&self, gpu: &Domain) -> bool {
        let is_program = |pid: &u32| self.processes.iter().any(|process| process.pid.get() == *pid);
        gpu.in_use().is_some_and(|(by, _)| self.header.system_wide || by.pids.iter().any(is_program))
    }

    /// The idle baseline: what was found before the start, or the model's own. What a GPU drew while a recorded program used it is no idle power. What it
    /// drew while only others used it counts as such: it is not the program's. A GPU's that counts its module is without that of the CPUs and memory there.
    pub fn idle_power(&self, domain: &Domain) -> MicroWatts {
        let own = self.shown_at_rest(domain);
        if domain.class != DomainClass::Gpu {
            return own;
        }
        let less = |left: u64, part| left.saturating_sub(self.shown_at_rest(part).as_uw());
        MicroWatts::from_uw(self.held_by(domain).into_iter().fold(own.as_uw(), less))
    }

    fn shown_at_rest(&self, domain: &Domain) -> MicroWatts {
        match (&domain.idle, &domain.origin) {
            (_, Origin::Model { idle, .. }) => *idle,
            (Some(baseline), Origin::Counter { .. }) if !self.used(domain) => baseline.power,
            (_, Origin::Counter { .. }) => MicroWatts::default(),
        }
    }

    /// The frames of a stack from the outermost one to the innermost; with `.rev()` the other way round.
    ///
    /// Ends early, never panics, on an id that is not in the tables or a parent that is not older than its child (which `file::read`
    /// refuses).
    pub fn frames_of(&self, stack: StackId) -> impl DoubleEndedIterator<Item = (FrameId, &Frame)> {
        frames_of(&self.stacks, &self.frames, stack)
    }
}

/// The frames of a stack in these tables, from the outermost one to the innermost: `Recording::frames_of`.
pub fn frames_of<'a>(
    stacks: &[StackNode],
    frames: &'a [Frame],
    stack: StackId,
) -> impl DoubleEndedIterator<Item = (FrameId, &'a Frame)> {
    let mut leaf_first = Vec::new();
    let mut next = Some(stack);
    while let Some(id) = next {
        let Some(node) = stacks.get(id.index()) else { break };
        let Some(frame) = frames.get(node.frame.index()) else { break };
        leaf_first.push((node.frame, frame));
        next = node.parent.filter(|parent| *parent < id);
    }
    leaf_first.into_iter().rev()
}
