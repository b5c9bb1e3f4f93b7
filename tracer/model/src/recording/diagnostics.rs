//! What went wrong or is worth knowing before a number is believed, as it was found while recording. Part of what a recording holds
//! (`record`).
//!
//! One variant for each code, with what its sentence needs. Leaves out the sentences (the report makes them) and what only the
//! attribution or the report finds out (`profile::diagnostics`).

use super::account::AccountDiagnostic;
use super::calls::CallDiagnostic;
use super::owners::OwnerDiagnostic;
use super::ranges::RangeDiagnostic;
use crate::ids::Pid;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One finding of a recording. Texts of errors are the system's or a library's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordingDiagnostic {
    /// The recording ends early, found when it is read.
    RecordingCut {
        /// Bytes that are whole; `None` where that is not known.
        whole_bytes: Option<u64>,
        /// Nanoseconds from the start to the last moment of which it says anything; `None` where that is not known. Found by the reader,
        /// and never written.
        #[serde(skip)]
        whole_ns: Option<u64>,
        /// What ends it.
        reason: CutReason,
    },
    /// Libraries that are loaded during the run are noticed late.
    NoMmapEvents {
        /// The kernel's reason.
        error: String,
    },
    /// The event that should drive the sampler was refused; the CPU clock samples instead.
    SampleEventRefused {
        /// The kernel's reason.
        error: String,
    },
    /// The kernel lets come fewer samples than were wanted, or not as they should.
    SampleRateLimited {
        /// Samples that come, a second on each CPU.
        hz: u32,
        /// Samples that were wanted.
        wanted_hz: u32,
        /// Whether each comes a fixed time after the kernel's tick.
        aligned: bool,
        /// The kernel's limit.
        limit: u32,
        /// A limit that would do.
        enough: u32,
        /// Nanoseconds after the start at which the kernel lowered its limit; `None`: it was so from the start.
        after_ns: Option<u64>,
    },
    /// No sample came though many were due.
    MachinePaused {
        /// How often.
        times: u64,
        /// CPU time without samples.
        cpu_ns: u64,
    },
    /// Fewer samples came than the CPU time should have brought.
    SamplesMissing {
        /// Samples that came.
        taken: u64,
        /// Samples that should have come.
        expected: u64,
        /// CPU time that should have brought them.
        cpu_ns: u64,
    },
    /// Unwind tables did not fit into their memory.
    UnwindTablesFull {
        /// Mebibytes that they may take.
        mib: u32,
        /// How often one was dropped for another.
        dropped: u64,
        /// Files without one at the end.
        without: u64,
    },
    /// The code mappings of processes found no room.
    MappingsFull {
        /// How many processes.
        processes: u64,
        /// Places for all processes.
        places: u64,
        /// Places for one.
        places_each: u64,
    },
    /// Names of Python functions took all the room they may take.
    PythonNamesLimited {
        /// The room.
        mib: u64,
        /// How often one more found none.
        times: u64,
        /// What stands in place of the names.
        mark: String,
    },
    /// Files could not be kept open, or were gone before they could be opened.
    NamesNotLookedUp {
        /// How many.
        files: u64,
    },
    /// Files could not be read to the end.
    FilesNotRead {
        /// The first of them, and why.
        files: Vec<(String, ReadFailure)>,
        /// How many more.
        more: u64,
    },
    /// The reader of events ended early, and with it the recording.
    ReaderDied,
    /// How long pushes into the ring buffers took, for a benchmark: the longest, then the counts by length.
    PushTimes {
        /// Of the samples' buffer.
        samples: Vec<u64>,
        /// Of the other events'.
        events: Vec<u64>,
    },
    /// What was found while launches on GPUs were followed.
    Launches(LaunchDiagnostic),
    /// What meters and sources of power showed.
    Power(PowerDiagnostic),
    /// Samples come evenly spaced, as the kernel's limit leaves no room for jitter.
    SamplesNotJittered {
        /// Samples that come, a second on each CPU.
        hz: u32,
        /// The kernel's limit.
        limit: u32,
        /// A limit that would do.
        enough: u32,
    },
    /// What was found while calls were counted.
    Calls(CallDiagnostic),
    /// What was found when the recording was held against the kernel's account.
    Account(AccountDiagnostic),
    /// Memory or files of processes could not be looked at in time.
    ProcessesNotAnswering {
        /// The first of them.
        processes: Vec<Unanswering>,
        /// How many more.
        more: u64,
    },
    /// Of command lines a part alone is recorded.
    CommandLinesCut {
        /// Of how many programs.
        programs: u64,
    },
    /// What was found about budgets that owners share.
    Owners(OwnerDiagnostic),
    /// CPU time was summed by process between readings of power.
    TimeSummed,
    /// What was found about ranges that programs mark.
    Ranges(RangeDiagnostic),
}

/// A process whose memory or files could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswering {
    /// Its number.
    pub pid: Pid,
    /// The user that it belongs to.
    pub user: u32,
    /// The kernel's name for it.
    pub name: String,
}

impl RecordingDiagnostic {
    /// A stable word for scripts: `power-read-failed`.
    pub fn code(&self) -> &str {
        match self {
            Self::RecordingCut { .. } => "recording-cut",
            Self::NoMmapEvents { .. } => "no-mmap-events",
            Self::SampleEventRefused { .. } => "sample-event-refused",
            Self::SampleRateLimited { .. } => "sample-rate-limited",
            Self::MachinePaused { .. } => "machine-paused",
            Self::SamplesMissing { .. } => "samples-missing",
            Self::UnwindTablesFull { .. } => "unwind-tables-full",
            Self::MappingsFull { .. } => "mappings-full",
            Self::PythonNamesLimited { .. } => "python-names-limited",
            Self::NamesNotLookedUp { .. } => "names-not-looked-up",
            Self::FilesNotRead { .. } => "files-not-read",
            Self::ReaderDied => "reader-died",
            Self::PushTimes { .. } => "push-times",
            Self::Launches(launches) => launches.code(),
            Self::Power(power) => power.code(),
            Self::SamplesNotJittered { .. } => "samples-not-jittered",
            Self::Calls(calls) => calls.code(),
            Self::Account(account) => account.code(),
            Self::ProcessesNotAnswering { .. } => "processes-not-answering",
            Self::CommandLinesCut { .. } => "command-lines-cut",
            Self::Owners(owners) => owners.code(),
            Self::TimeSummed => "time-summed",
            Self::Ranges(ranges) => ranges.code(),
        }
    }
}

impl From<LaunchDiagnostic> for RecordingDiagnostic {
    fn from(launches: LaunchDiagnostic) -> Self {
        Self::Launches(launches)
    }
}

impl From<CallDiagnostic> for RecordingDiagnostic {
    fn from(calls: CallDiagnostic) -> Self {
        Self::Calls(calls)
    }
}

impl From<AccountDiagnostic> for RecordingDiagnostic {
    fn from(account: AccountDiagnostic) -> Self {
        Self::Account(account)
    }
}

impl From<RangeDiagnostic> for RecordingDiagnostic {
    fn from(ranges: RangeDiagnostic) -> Self {
        Self::Ranges(ranges)
    }
}

impl From<OwnerDiagnostic> for RecordingDiagnostic {
    fn from(owners: OwnerDiagnostic) -> Self {
        Self::Owners(owners)
    }
}

impl From<PowerDiagnostic> for RecordingDiagnostic {
    fn from(power: PowerDiagnostic) -> Self {
        Self::Power(power)
    }
}

/// A finding about launches and kernels on GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchDiagnostic {
    /// Launches on GPUs are not seen, or not all.
    ProbesFailed(ProbeFailure),
    /// Kernels were launched beside a GPU's busiest stream.
    Streams {
        /// The GPU's domain.
        domain: String,
        /// How many percent of the kernels.
        percent: u64,
    },
    /// Nodes of graphs were given new work, and it is not known whose work that replaced.
    GraphChanged {
        /// How often.
        times: u64,
    },
    /// The kernel steps through the first instruction of functions that are probed.
    SlowProbes(Names),
    /// A GPU library was probed after it could be used.
    ProbesLate {
        /// The library.
        library: String,
        /// The process that has it.
        pid: u32,
        /// Nanoseconds since that was noticed.
        late_ns: u64,
    },
    /// GPU kernels are not timed; launches are counted instead.
    KernelFallback(KernelFallback),
    /// Times of GPU kernels came faster than they could be taken in.
    KernelFlood {
        /// Messages that were dropped.
        messages: u64,
        /// Records that were dropped.
        records: u64,
        /// Connections that were turned away.
        refused: u64,
    },
    /// Another library was to be injected already: it is loaded first.
    InjectionChained {
        /// That library.
        library: String,
    },
}

impl LaunchDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ProbesFailed(_) => "gpu-probes-failed",
            Self::Streams { .. } => "gpu-streams",
            Self::GraphChanged { .. } => "gpu-graph-changed",
            Self::SlowProbes(_) => "gpu-slow-probes",
            Self::ProbesLate { .. } => "gpu-probes-late",
            Self::KernelFallback(_) => "gpu-kernel-fallback",
            Self::KernelFlood { .. } => "gpu-kernel-flood",
            Self::InjectionChained { .. } => "gpu-injection-chained",
        }
    }
}

/// A finding about the meters and sources of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerDiagnostic {
    /// MIG is on: the energy is that of the whole device.
    GpuMig {
        /// The domain.
        domain: String,
    },
    /// A virtual GPU: what it says is the host's.
    GpuVirtual {
        /// The domain.
        domain: String,
    },
    /// The energy is that of a whole module, CPU and memory included.
    GpuModule {
        /// The domain.
        domain: String,
    },
    /// No energy counter: joules are a sum of power readings.
    GpuNoCounter {
        /// The domain.
        domain: String,
    },
    /// No energy counter, and power is a mean over a second.
    GpuAveragedPower {
        /// The domain.
        domain: String,
    },
    /// The device does not offer what would be used.
    GpuUnsupported {
        /// The domain.
        domain: String,
        /// What is missing.
        missing: Vec<GpuFeature>,
    },
    /// The device fell off the bus during the run.
    GpuLost {
        /// The domain.
        domain: String,
    },
    /// The device's counter went back.
    GpuCounterReset {
        /// The domain.
        domain: String,
        /// Joules before.
        from_j: u64,
        /// Joules after.
        to_j: u64,
        /// How often in all.
        times: u64,
    },
    /// A device's counter and its own power differ.
    GpuSensorsDisagree {
        /// The domain.
        domain: String,
        /// By how much, in thousandths of the power's energy.
        permille: i64,
        /// Which counter.
        counter: CounterKind,
    },
    /// Two drivers that read the same counter differ.
    SourcesDisagree {
        /// The domain.
        domain: String,
        /// By how much, in thousandths of powercap's energy.
        permille: i64,
    },
    /// Readings of a domain failed.
    ReadFailed {
        /// The domain.
        domain: String,
        /// How many.
        failed: u64,
        /// Of how many.
        readings: u64,
        /// The first failure.
        error: String,
    },
    /// A reader of power ended early.
    ReaderDied {
        /// Why.
        error: String,
    },
    /// A log that is replayed was changed in a way that cannot be used.
    ReplayChanged {
        /// What is wrong.
        error: String,
    },
    /// A log that is replayed does not cover the whole run.
    ReplayDoesNotCover {
        /// The log.
        path: String,
    },
    /// No energy counter and no power: joules are for how much of the time it was busy, times its limit.
    GpuUtilization {
        /// The domain.
        domain: String,
    },
}

impl PowerDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::GpuMig { .. } => "gpu-mig",
            Self::GpuVirtual { .. } => "gpu-virtual",
            Self::GpuModule { .. } => "gpu-module",
            Self::GpuNoCounter { .. } => "gpu-no-counter",
            Self::GpuAveragedPower { .. } => "gpu-averaged-power",
            Self::GpuUnsupported { .. } => "gpu-unsupported",
            Self::GpuLost { .. } => "gpu-lost",
            Self::GpuCounterReset { .. } => "gpu-counter-reset",
            Self::GpuSensorsDisagree { .. } => "gpu-sensors-disagree",
            Self::SourcesDisagree { .. } => "sources-disagree",
            Self::ReadFailed { .. } => "power-read-failed",
            Self::ReaderDied { .. } => "power-reader-died",
            Self::ReplayChanged { .. } => "replay-changed",
            Self::ReplayDoesNotCover { .. } => "replay-does-not-cover",
            Self::GpuUtilization { .. } => "gpu-utilization",
        }
    }

    /// The domain whose meter shows more than what is launched on its device: which launches took it cannot be known.
    pub fn shared_meter(&self) -> Option<&str> {
        match self {
            Self::GpuMig { domain } | Self::GpuVirtual { domain } | Self::GpuModule { domain } => {
                Some(domain)
            }
            _ => None,
        }
    }
}

/// What ends a recording before its end.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CutReason {
    /// Nothing follows the opening.
    #[error("it was cut off right after its opening")]
    AfterOpening,
    /// The last record is not the summary.
    #[error("its end is missing")]
    NoEnd,
    /// The file ends within a chunk.
    #[error("a chunk is cut off")]
    Chunk,
    /// A chunk's checksum is wrong.
    #[error("a chunk is damaged: its checksum is wrong")]
    Checksum,
    /// A chunk of a kind that is not known.
    #[error("a chunk of unknown kind {0}")]
    ChunkKind(u8),
    /// A record cannot be decoded, or makes no sense beside those before it.
    #[error("a record is damaged: {0}")]
    Record(String),
    /// Of a merged file, only the first recordings are there.
    #[error(
        "of the {of} recordings that were merged it holds {read}, of which the last may be cut: their joules are missing"
    )]
    Parts {
        /// How many are there.
        read: u32,
        /// How many were merged.
        of: u32,
    },
}

/// Why a file could not be read to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadFailure {
    /// The process that read it ended.
    Died,
    /// Reading it took too long.
    TookTooLong,
    /// What was read made no sense.
    Nonsense,
    /// It is damaged, or was changed while it was recorded.
    Damaged,
    /// Its headers say that it is far larger than it is.
    TooLarge,
    /// It has more unwind information than its code can need.
    MoreThanItsCode,
    /// Root may not read it, and a process of its user (id) could not copy it.
    NotRoots {
        /// The user.
        user: u32,
    },
}

/// Some names, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The first of them.
    pub first: Vec<String>,
    /// How many more.
    pub more: u64,
}

impl Names {
    /// The first `at_most` of some names, the rest as a number.
    pub fn of(names: &[String], at_most: usize) -> Self {
        let more = names.len().saturating_sub(at_most);
        Self { first: names.iter().take(at_most).cloned().collect(), more: more as u64 }
    }
}

/// Which launches on GPUs are not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeFailure {
    /// None is, for the kernel's reason.
    Launches {
        /// The reason.
        error: String,
    },
    /// Those by these functions, each with its reason.
    Functions(Names),
}

/// Why GPU kernels are not timed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelFallback {
    /// No GPU has a counter here.
    NoGpu,
    /// The target is not a command that energy-trace starts itself.
    NotStartedHere,
    /// Launches are not traced, for this reason.
    NoLaunches {
        /// The reason; `None`: they were not asked for.
        error: Option<String>,
    },
    /// The library cannot be prepared.
    NotPrepared {
        /// Why.
        error: String,
    },
    /// No program loaded the library.
    NotLoaded,
    /// The library cannot be put where programs below another root find it.
    Root {
        /// A process with that root.
        pid: u32,
        /// The folder for the library.
        folder: String,
        /// The folder that should hold it.
        parent: String,
        /// Why not.
        error: String,
    },
    /// One process's kernels.
    Process {
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// Why.
        reason: NotTimed,
    },
}

/// Why one process's GPU kernels are not timed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotTimed {
    /// It did not load the library.
    NotLoaded,
    /// The library cannot time them, for this reason.
    Trouble(String),
    /// What the library sent made no sense.
    Nonsense(String),
}

/// What a GPU's driver may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuFeature {
    /// Power that is not averaged.
    InstantPower,
    /// The driver's own samples of power.
    PowerSamples,
    /// Utilisation by process.
    ProcessUtilization,
}

/// Which counter differs from a device's own power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CounterKind {
    /// The driver's counter.
    Counter,
    /// The accumulator in the card's metrics table.
    Accumulator,
}
