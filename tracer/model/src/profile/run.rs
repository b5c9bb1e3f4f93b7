//! Facts of a run that a report shows beside its joules: when, on what machine, how many samples, how whole their stacks.
//!
//! Taken from a recording once, so that a report needs no recording. Leaves out how they are shown.

use crate::clock::KtimeNs;
use crate::collections::Fill as _;
use crate::recording::Recording;
use crate::recording::record::{
    Clocks, CpuOwner, Domain, FrameKind, GpuMeter, GpuUse, Header, Host, LaunchStacks, Project, Sample,
    SensorCost, SensorSeries, StackStatus, Summary,
};
use std::collections::BTreeMap;

/// Facts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// What was known when the recording started.
    pub header: Header,
    /// The machine, where that is known.
    pub host: Option<Host>,
    /// What was known when it ended; `None` when it was cut off.
    pub summary: Option<Summary>,
    /// Start of the recording's time.
    pub start: KtimeNs,
    /// Its end; of a recording that was cut off, the last thing in it.
    pub end: KtimeNs,
    /// Stack samples.
    pub samples: u64,
    /// How whole their stacks are.
    pub stack_statuses: BTreeMap<StackStatus, u64>,
    /// Samples whose native frames end early and that have Python frames all the same.
    pub python_whole: u64,
    /// CPU time of everything that is not the target, in nanoseconds.
    pub other_ns: u64,
    /// Whose stacks the launches on GPUs stand in.
    pub launch_stacks: LaunchStacks,
    /// What was learned of GPUs beside their readings.
    pub gpus: Vec<GpuFact>,
    /// Domains of modules: each holds a socket's CPUs and memory, and a meter of the whole machine holds them.
    pub modules: Vec<String>,
    /// Domains whose energy holds that of others, and these.
    pub holds: BTreeMap<String, Vec<String>>,
    /// What sensors of warmth and clocks said.
    pub sensors: Vec<SensorSeries>,
    /// What reading them took.
    pub sensor_cost: Option<SensorCost>,
    /// How fast each CPU's clock ran.
    pub clocks: Clocks,
    /// Where the program's code comes from.
    pub project: Option<Project>,
    /// The rank of the program among those that were started with it.
    pub rank: Option<u32>,
}

/// What was learned of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFact {
    /// The name of its domain.
    pub domain: String,
    /// How its meter behaves.
    pub meter: Option<GpuMeter>,
    /// Which processes kept it busy, in the order in which it was sampled.
    pub uses: Vec<GpuUse>,
}

impl Run {
    /// The facts of a recording.
    pub fn of(recording: &Recording) -> Self {
        let (start, end) = time_range(recording);
        let modules = recording.domains.iter().filter(|domain| domain.is_module());
        Self {
            header: recording.header.clone(),
            host: recording.host.clone(),
            summary: recording.summary.clone(),
            start,
            end,
            samples: recording.samples.len() as u64,
            stack_statuses: stack_statuses(&recording.samples),
            python_whole: python_whole(recording),
            other_ns: other_ns(recording),
            launch_stacks: recording.gpu.stacks,
            gpus: gpu_facts(recording),
            modules: modules.map(|domain| domain.name.clone()).collect(),
            holds: holds(recording),
            sensors: recording.sensors.clone(),
            sensor_cost: recording.sensor_cost,
            clocks: recording.clocks.clone(),
            project: recording.project.clone(),
            rank: recording.rank,
        }
    }

    /// Length of the recording's time in nanoseconds.
    pub const fn duration_ns(&self) -> u64 {
        self.end.ns_since(self.start)
    }
}

/// From the summary, or up to the last thing seen in a recording that was cut off.
fn time_range(recording: &Recording) -> (KtimeNs, KtimeNs) {
    if let Some(summary) = &recording.summary {
        return (summary.start, summary.end);
    }
    let start = recording.header.anchor.ktime;
    let readings =
        recording.readings.values().filter_map(|readings| readings.last()).map(|reading| reading.at);
    let samples = recording.samples.last().map(|sample| sample.at);
    let slices = recording.slices.iter().map(|slice| slice.end);
    (start, readings.chain(samples).chain(slices).fold(start, KtimeNs::max))
}

fn stack_statuses(samples: &[Sample]) -> BTreeMap<StackStatus, u64> {
    let mut counts = BTreeMap::new();
    for sample in samples {
        *counts.entry(sample.status).or_default() += 1;
    }
    counts
}

/// How many stacks whose native frames end early, or were guessed, carry all Python frames of their thread.
fn python_whole(recording: &Recording) -> u64 {
    let has_python = |stack| recording.frames_of(stack).any(|(_, frame)| frame.kind == FrameKind::Python);
    let is_cut = |status| matches!(status, StackStatus::Truncated(_) | StackStatus::Guessed(_));
    let cut = recording.samples.iter().filter(|sample| is_cut(sample.status));
    cut.filter(|sample| has_python(sample.stack)).count() as u64
}

fn other_ns(recording: &Recording) -> u64 {
    let others = recording.slices.iter().filter(|slice| !matches!(slice.who, CpuOwner::Target(_)));
    others.map(|slice| slice.end.ns_since(slice.start)).fold(0, u64::saturating_add)
}

fn holds(recording: &Recording) -> BTreeMap<String, Vec<String>> {
    let held = |outer| recording.held_by(outer).iter().map(|domain| domain.name.clone()).collect();
    let all = recording.domains.iter().map(|outer| (outer.name.clone(), held(outer)));
    all.filter(|(_, held): &(String, Vec<String>)| !held.is_empty()).fill_map()
}

fn gpu_facts(recording: &Recording) -> Vec<GpuFact> {
    let facts = &recording.gpu_facts;
    let fact = |domain: &Domain| GpuFact {
        domain: domain.name.clone(),
        meter: facts.meters.get(&domain.id).copied(),
        uses: facts.uses.get(&domain.id).cloned().unwrap_or_default(),
    };
    let known = recording.domains.iter().map(fact);
    known.filter(|gpu| gpu.meter.is_some() || !gpu.uses.is_empty()).collect()
}
