//! What a reader should know before believing a number: the recording's findings, the attribution's, and those about the whole.
//!
//! One variant for each code, with what its sentence needs. Leaves out the sentences, which the report makes, and how sure each single
//! number is (`certainty`).

use super::over_time::PartOfRun;
use super::validity::ValidityCheck;
use crate::recording::record::{
    InUse, KernelTier, LaunchStacks, LossReason, Part, RecordingDiagnostic, Runtime, StackStatus, WorkFailure,
};
use crate::units::{MicroJoules, MicroWatts};
use std::collections::BTreeMap;

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Diagnostic {
    /// Found while recording.
    Recorded(RecordingDiagnostic),
    /// Found about one domain's energy.
    Domain {
        /// The domain's name.
        domain: String,
        /// What.
        what: DomainDiagnostic,
    },
    /// Threads seemed to be on one CPU at once, because a switch was lost.
    OverlappingSlices {
        /// How often.
        times: u64,
    },
    /// CPU time was spent on CPUs whose socket is not known.
    CpuWithoutSocket {
        /// How much.
        cpu_ns: u64,
    },
    /// What timing a process's kernels cost it.
    KernelCost(KernelTier),
    /// Kernels of a process are missing, or have no stack.
    KernelsMissing(KernelTier),
    /// Launches stand in another launch's stack, or in none.
    LaunchStacksThinned(LaunchStacks),
    /// All numbers are of a part of the run.
    PartOfRun(PartOfRun),
    /// Events were lost while recording.
    EventsLost(BTreeMap<LossReason, u64>),
    /// No source of energy: only time is shown.
    NoEnergySource,
    /// CPU time of the target that no sample saw.
    UnsampledTime {
        /// How much.
        unsampled_ns: u64,
        /// Of how much.
        of_ns: u64,
    },
    /// CPU time of processes whose Python cannot be read: it stands below native functions.
    NoPythonFrames {
        /// Their interpreters.
        runtimes: Vec<Runtime>,
        /// How much.
        native_ns: u64,
        /// Of how much.
        of_ns: u64,
    },
    /// Samples whose stacks are not whole: what they lack is missing in all that counts callees.
    StacksNotWhole {
        /// How many.
        samples: u64,
        /// Of how many.
        of: u64,
        /// What most of them are.
        most: StackStatus,
    },
    /// CPU time in code that programs made at run time and wrote no names of: a row for each program, not for each function.
    JitNotNamed {
        /// Their names, and how much, the most first.
        programs: Vec<(String, u64)>,
        /// Of how much.
        of_ns: u64,
    },
    /// The run does not show the program's own energy, but the least and the most that it may be: other programs ran beside it, or the machine was busy
    /// while its idle power was measured.
    ProgramUncertain {
        /// At least.
        least: MicroJoules,
        /// At most.
        most: MicroJoules,
    },
    /// A thread does its stages over and over, faster than samples and readings show.
    ShortLoop {
        /// How long one turn takes.
        loop_ns: u64,
        /// Samples a second that show them.
        hz: u32,
        /// Readings a second that show them, where the usual ones do not.
        power_hz: Option<u32>,
    },
    /// So few samples that shares are rough.
    FewSamples {
        /// How many.
        samples: u64,
        /// Of so much CPU time.
        cpu_ns: u64,
    },
    /// Packages that were entered and do not say by which call, or have no public names.
    CallsNotNamed {
        /// Time in calls of packages that no frame names.
        not_named: Vec<(String, u64)>,
        /// Time in calls of packages without public names.
        not_public: Vec<(String, u64)>,
        /// Of how much.
        of_ns: u64,
    },
    /// Energy of graphs that a GPU's program captured before it was attached to: their kernels are not known.
    GraphsNotKnown(MicroJoules),
    /// Energy of windows in which nobody ran is left over: the idle baseline does not fit.
    ResidualLarge(Vec<(String, MicroJoules)>),
    /// A part of the machine was slowed down.
    SlowedDown {
        /// Which.
        part: Part,
        /// Why.
        by: SlowedBy,
        /// For how long, where that is known.
        ns: Option<u64>,
        /// How often, where that was counted.
        times: Option<u64>,
        /// Of how much time.
        of_ns: u64,
    },
    /// What to know of a kind of work.
    Work {
        /// What the user calls it.
        name: String,
        /// What.
        what: WorkDiagnostic,
    },
    /// Sums that should be equal are not: an error in energy-trace.
    LedgerImbalance(Vec<(Imbalance, MicroJoules)>),
}

/// Why joules per unit of work are not known, or not of all of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkDiagnostic {
    /// The counter was never there.
    NotRead {
        /// Where it was looked for.
        source: String,
        /// Why, at the last look.
        failure: Option<WorkFailure>,
    },
    /// It never moved.
    NeverMoved {
        /// Looks that found a number.
        readings: u64,
    },
    /// No call of the function was counted.
    NotCounted {
        /// As it was asked for.
        function: String,
    },
    /// It began anew or was gone: what lies between two stretches is in neither.
    InPart {
        /// How often it began anew.
        restarts: u64,
        /// How often it was gone.
        gone: u64,
        /// Time for which it says what was done, in nanoseconds.
        covered_ns: u64,
        /// Of so much.
        of_ns: u64,
        /// Why it was gone, the last time.
        failure: Option<WorkFailure>,
    },
    /// It stood still for long.
    StoodStill {
        /// The longest time, in nanoseconds.
        still_ns: u64,
        /// Of so much for which it was there.
        covered_ns: u64,
    },
    /// Several recordings were merged, and not all of them count it apart from the others.
    Merged,
    /// There is something to know of it, and of others, for which there is no room.
    AndMore {
        /// How many others.
        more: u64,
    },
}

impl WorkDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotRead { .. } => "work-not-read",
            Self::NeverMoved { .. } => "work-never-moved",
            Self::NotCounted { .. } => "work-not-counted",
            Self::InPart { .. } => "work-in-part",
            Self::StoodStill { .. } => "work-stood-still",
            Self::Merged => "work-merged",
            Self::AndMore { .. } => "work-more",
        }
    }
}

/// What slows a part of the machine down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowedBy {
    /// It is too warm.
    Heat,
    /// It draws as much power as it may.
    Power,
    /// The hardware does not say.
    Unknown,
}

impl SlowedBy {
    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heat => "heat",
            Self::Power => "power",
            Self::Unknown => "unknown",
        }
    }
}

/// Which sum is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imbalance {
    /// A domain's parts do not add up to what was measured.
    Domain(String),
    /// The stacks of a class of domains do not add up to the target's energy.
    Stacks(&'static str),
}

/// What counts as the idle power of a GPU that was at work when that was to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleInUse {
    /// Nothing: a recorded program used it, and the run has too few pauses.
    Unknown,
    /// A recorded program used it, and it is what the device drew in pauses of the run.
    Pauses,
    /// What it drew then: only others used it.
    OfOthers,
}

/// A finding about one domain's energy.
#[derive(Clone, Debug, PartialEq)]
pub enum DomainDiagnostic {
    /// Time without a reading.
    NoReading {
        /// How much.
        missing_ns: u64,
        /// Of how much.
        of_ns: u64,
        /// Why, and how much for each reason.
        reasons: BTreeMap<GapReason, u64>,
    },
    /// Readings contradicted those before and after them, which agree: they were left out, and cost no energy.
    ReadingsLeftOut {
        /// How many.
        readings: u64,
    },
    /// The counter of a part that not every machine counts never moved.
    NotCounted,
    /// Another domain shows the same counter: it is counted once.
    SameCounter {
        /// The other one.
        domain: String,
    },
    /// No idle power is known.
    NoIdleBaseline,
    /// CPUs were busy when the idle power was to be measured: it is estimated.
    BusyBeforeStart {
        /// How busy, in percent.
        percent: u64,
        /// What was measured.
        measured: MicroWatts,
        /// What is taken instead.
        taken: MicroWatts,
    },
    /// A GPU was at work when its idle power was to be measured.
    GpuInUse {
        /// Who used it.
        by: InUse,
        /// What counts as its idle power.
        idle: IdleInUse,
    },
    /// A GPU's energy above idle is nobody's.
    GpuUnattributed,
    /// How a GPU's energy was split.
    GpuSplit(GpuSplit),
    /// Functions of which only the sum is known.
    GpuNotToldApart {
        /// Their names.
        names: Vec<String>,
    },
    /// The run does not show how much power each function draws.
    ModelCpuTime {
        /// The checks that failed; none where nothing could be fitted.
        failed: Vec<ValidityCheck>,
    },
    /// CPUs drew less while others were busy as well.
    LessBesideOthers {
        /// What a CPU drew beside the usual number of busy ones, in parts of what it drew alone.
        part: f64,
    },
    /// The counter shows more variation than the functions' powers, their times and the counter's own steps explain.
    LackOfFit {
        /// How many times as much (mean squares).
        times: f64,
    },
    /// The counter was below the idle power while something ran.
    IdleAboveCounter {
        /// Idle energy and all that was measured, where the first is more in the whole run.
        run: Option<(MicroJoules, MicroJoules)>,
        /// What was charged as negative shares.
        negative: MicroJoules,
    },
    /// A meter's log was moved in time.
    MeterLag {
        /// How late it is; negative: early.
        late_ns: i64,
        /// How well its power goes with the CPUs' work then (r²).
        fit: f64,
        /// How well without.
        unshifted: f64,
    },
}

/// Why nothing is known of a domain's energy in a stretch of time: the counter says nothing, or nothing that can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GapReason {
    /// Before the first or after the last good reading.
    NoReading,
    /// The counter went back, and not because it is full: the driver was loaded again, or the machine slept.
    WentBack,
    /// So long without a reading that a full turn of the counter could hide in it.
    TooLong,
    /// The machine slept meanwhile.
    Slept,
    /// The counter had one value all the time.
    NeverMoved,
    /// The counter stood still, and did not make up for it afterwards.
    StoodStill,
    /// The counter showed more than the hardware can draw.
    TooMuch,
    /// CPUs ran, and the counter showed far less than the machine draws at rest.
    BelowIdle,
}

impl GapReason {
    /// Whether the counter was read, and not believed.
    pub const fn is_doubt(self) -> bool {
        matches!(self, Self::NeverMoved | Self::StoodStill | Self::TooMuch | Self::BelowIdle)
    }
}

/// How a GPU's energy was split among the kinds of work that it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSplit {
    /// What was known of the work.
    pub by: SplitBy,
    /// Kinds of work.
    pub kinds: usize,
    /// Steps of the counter.
    pub steps: usize,
    /// How the steps showed what each kind takes; `None` where they do not.
    pub learned: Option<MeterFit>,
    /// Whether the meter shows this device's energy alone, and kernels ran one after the other.
    pub alone: bool,
    /// Why kernels and counter do not go together, if they do not: then no function's energy is identified.
    pub misfit: Option<GpuMisfit>,
}

/// Why the counter of a GPU is not what kernels of one power each, seen by a meter that is late by one time, would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuMisfit {
    /// The sensor follows the board's power slowly.
    SlowSensor,
    /// The same kernels take other energies from time to time, or something else draws power.
    Unexplained,
}

/// What is known of the work that a GPU did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SplitBy {
    /// Launches alone.
    Launches,
    /// Launches, and waits for their end.
    Waits,
    /// When each kernel ran.
    Kernels {
        /// The part of the busy time in which several ran at once.
        crowded: f64,
        /// Whether each counts with its whole time then, and not with its part of the moment.
        whole: bool,
    },
}

/// What the steps of a GPU's counter showed of the meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeterFit {
    /// How late the counter is, in seconds.
    pub late_s: f64,
    /// The part of the time at which the sensor looks.
    pub duty: f64,
    /// Seconds of which each reading is the mean; 0: it is none.
    pub mean_s: f64,
    /// The condition number of the fit.
    pub condition: f64,
}

impl Diagnostic {
    /// A finding about a domain.
    pub fn of(domain: &str, what: DomainDiagnostic) -> Self {
        Self::Domain { domain: domain.to_owned(), what }
    }

    /// A stable word for scripts: `no-reading`.
    pub fn code(&self) -> &str {
        match self {
            Self::Recorded(found) => found.code(),
            Self::Domain { what, .. } => what.code(),
            Self::OverlappingSlices { .. } => "overlapping-slices",
            Self::CpuWithoutSocket { .. } => "cpu-without-socket",
            Self::KernelCost(_) => "gpu-kernel-cost",
            Self::KernelsMissing(_) => "gpu-kernels-missing",
            Self::LaunchStacksThinned(_) => "gpu-stacks-thinned",
            Self::PartOfRun(_) => "part-of-run",
            Self::SlowedDown { .. } => "slowed-down",
            Self::EventsLost(_) => "events-lost",
            Self::NoEnergySource => "no-energy-source",
            Self::UnsampledTime { .. } => "unsampled-time",
            Self::NoPythonFrames { .. } => "no-python-frames",
            Self::StacksNotWhole { .. } => "stacks-not-whole",
            Self::JitNotNamed { .. } => "jit-not-named",
            Self::ProgramUncertain { .. } => "program-uncertain",
            Self::ShortLoop { .. } => "short-loop",
            Self::FewSamples { .. } => "few-samples",
            Self::CallsNotNamed { .. } => "calls-not-named",
            Self::GraphsNotKnown(_) => "gpu-graphs-not-known",
            Self::ResidualLarge(_) => "residual-large",
            Self::Work { what, .. } => what.code(),
            Self::LedgerImbalance(_) => "ledger-imbalance",
        }
    }
}

impl DomainDiagnostic {
    /// A stable word for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoReading { reasons, .. } if reasons.keys().any(|why| why.is_doubt()) => "counter-doubted",
            Self::NoReading { .. } => "no-reading",
            Self::ReadingsLeftOut { .. } => "readings-left-out",
            Self::NotCounted => "not-counted",
            Self::NoIdleBaseline => "no-idle-baseline",
            Self::BusyBeforeStart { .. } => "busy-before-start",
            Self::GpuInUse { idle: IdleInUse::Unknown, .. } => "gpu-in-use",
            Self::GpuInUse { idle: IdleInUse::Pauses, .. } => "gpu-idle-from-pauses",
            Self::GpuInUse { idle: IdleInUse::OfOthers, .. } => "gpu-used-by-others",
            Self::GpuUnattributed => "gpu-unattributed",
            Self::GpuSplit(GpuSplit { by: SplitBy::Kernels { .. }, .. }) => "gpu-by-kernels",
            Self::GpuSplit(_) => "gpu-by-launches",
            Self::GpuNotToldApart { .. } => "gpu-launches-not-identifiable",
            Self::ModelCpuTime { .. } => "model-cpu-time",
            Self::LessBesideOthers { .. } => "cpu-contention",
            Self::LackOfFit { .. } => "power-varies",
            Self::IdleAboveCounter { .. } => "idle-above-counter",
            Self::MeterLag { .. } => "meter-lag",
            Self::SameCounter { .. } => "same-counter",
        }
    }
}
