//! What a recording holds: the facts of one run, before any energy is attributed.
//!
//! Everything right of the recording (`attribution/`, `report/`) needs nothing but these types. Leaves out how they lie in a file
//! (`file.rs`) and what they mean in joules (`attribution/`).

use crate::clock::{KtimeNs, WallAnchor};
use crate::ids::{BackgroundKey, Pid, Tid};
use crate::ids::{CpuId, DomainId, FrameId, ProcessKey, SocketId, StackId, ThreadKey, WorkId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use super::account::{AccountDiagnostic, HiddenFile, TimeDifference};
pub use super::calls::{CallCount, CallDiagnostic, CallTimes, PythonNotCounted};
pub use super::diagnostics::{
    CounterKind, CutReason, GpuFeature, KernelFallback, LaunchDiagnostic, Names, NotTimed, PowerDiagnostic,
    ProbeFailure, ReadFailure, RecordingDiagnostic, Unanswering,
};
pub use super::domain::{
    CounterValue, Domain, DomainClass, GpuMeter, GpuMeterKind, GpuUse, IdleBaseline, IdleOrigin, InUse,
    Origin, Quality, Reading, Scope,
};
pub use super::frequencies::{Clocks, Frequencies};
pub use super::inputs::{CallPlace, Input, InputRole, InputSize, InputSizes};
pub use super::interpreter::{OtherPython, Runtime, RuntimeRefusal};
pub use super::kernels::{GpuBusy, KernelTier};
pub use super::launches::{GpuWait, GpuWork, LaunchStacks, Launched, Launches};
pub use super::losses::{CopyOutcome, LossReason};
pub use super::owners::{OfOwners, Owner, OwnerDiagnostic};
pub use super::project::Project;
pub use super::public_names::{InstalledPackage, PublicName};
pub use super::sampling::{Jitter, SampleEvent};
pub use super::sources::{
    CounterTraits, Driver, Ignored, IgnoredReason, LibraryProblem, MetricsProblem, RANGE_OF_CODE, Source,
    SourceId, SourceNote, Whole,
};
pub use super::thermal::{
    Part, Sensor, SensorCost, SensorQuantity, SensorReadings, SensorSeries, SensorValue, Slowdown,
};

pub use super::two_counters::TwoCounters;
pub use super::work::{
    WorkCounter, WorkFailure, WorkReading, WorkSeries, WorkSource, WorkUnits, without_work,
};

/// One entry of a recording, in the order in which it was learned. An id is always defined before it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The run: always the first record.
    Header(Header),
    /// A power domain that will be read.
    Domain(Domain),
    /// Readings of one domain, in time order.
    Readings(DomainId, Vec<Reading>),
    /// A program in a process.
    Process(Process),
    /// A thread of a program.
    Thread(Thread),
    /// A frame, without the names that are found later.
    Frame(FrameId, Frame),
    /// A stack: its innermost frame and the stack of its caller.
    Stack(StackId, StackNode),
    /// On-CPU time.
    Slices(Vec<Slice>),
    /// Stack samples.
    Samples(Vec<Sample>),
    /// Names found for a native or kernel frame after it was recorded (symbolized at the end of the run).
    Name(FrameId, Name),
    /// The end of the run: counters and diagnostics. A recording without it was cut off, and stays readable.
    Summary(Summary),
    /// The machine woke up from sleep: what counters did meanwhile is not the program's.
    Slept(KtimeNs),
    /// Functions that the compiler put into a frame's function at its address, each into the one before it (debug information). When the
    /// recording is read they become frames of their own.
    Inlined(FrameId, Vec<Name>),
    /// From a moment on a frame has another name: other code was put in its place (JIT).
    Renamed(FrameId, KtimeNs, Name),
    /// A file whose code was seen.
    Library(Library),
    /// Python threads that went to sleep.
    Waits(Vec<Wait>),
    /// Threads that were woken by others.
    Wakes(Vec<Wake>),
    /// A frame in which a pool's worker waits for tasks: what is below it was asked for by another thread.
    PoolLoop(FrameId),
    /// How the meter of a GPU behaves: once at the start, and again at the end.
    GpuMeter(DomainId, GpuMeter),
    /// Which processes kept a GPU busy, of the target or not.
    GpuUses(DomainId, Vec<GpuUse>),
    /// Work that was launched on a GPU.
    Launches(Launches),
    /// Threads that waited for a GPU.
    GpuWaits(Vec<GpuWait>),
    /// CPUs that share a core, one list a core that has several; absent where the machine does not say or has none.
    Cores(Vec<Vec<CpuId>>),
    /// What GPUs did, with exact times.
    GpuBusy(Vec<GpuBusy>),
    /// What the kernel tier told of a process, when the process or the recording ends.
    KernelTier(KernelTier),
    /// Whose stacks launches stand in, since the last such record.
    LaunchStacks(LaunchStacks),
    /// A process that is not a target and was on a CPU.
    Background(BackgroundProcess),
    /// How fast CPUs' clocks run, where that moved; absent where the machine has no cpufreq.
    Frequencies(Frequencies),
    /// Where targets were on a CPU and could not be seen.
    Unsampled(Vec<Unsampled>),
    /// What users call functions of packages, found when the recording ends.
    PublicNames(Vec<PublicName>),
    /// How often functions were called, where that was counted; comes when the recording ends.
    Calls(Vec<CallCount>),
    /// A sensor that will be read.
    Sensor(Sensor),
    /// What sensors said, where that moved.
    SensorReadings(SensorReadings),
    /// What reading the sensors took; comes when the recording ends.
    SensorCost(SensorCost),
    /// Where the program's code comes from; absent where nobody knows.
    Project(Project),
    /// What functions were called with, where that was asked for; comes when the recording ends.
    InputSizes(Vec<InputSizes>),
    /// On what the function of a frame was called, where that tells more than its name.
    CalledOn(FrameId, CalledOn),
    /// The machine.
    Host(Host),
    /// Where packages are installed whose folder's name does not tell; comes when the recording ends.
    Installed(Vec<InstalledPackage>),
    /// Work that is counted.
    Work(WorkId, WorkCounter),
    /// What a counter of work said.
    WorkReadings(WorkId, Vec<WorkReading>),
    /// The path of a process's control group, where it is not its parent's.
    ControlGroup(ProcessKey, String),
    /// The rank of the program among those that were started with it (Slurm, MPI).
    Rank(u32),
    /// CPU time of processes between two readings of power, where no slices are recorded.
    CpuTotals(Vec<CpuTotals>),
    /// From a sample on a thread is in another span, or in none.
    Span(ThreadKey, KtimeNs, Span),
}

/// What tells calls of one function apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CalledOn {
    /// A method, on an object of a class that inherits it.
    Class {
        /// The module that defines the class, as `Frame::module` has it.
        module: String,
        /// Its name there.
        name: String,
    },
    /// A package's way to run a function of the program, and that function's name.
    Function(String),
}

/// The machine of a recording, so that recordings of several can be put together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// What it calls itself (`uname -n`).
    pub name: String,
    /// Which of its lives this was: the kernel's random number of this boot. Empty where it could not be read.
    pub boot: String,
}

/// What is known when the recording starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of energy-trace that wrote it.
    pub version: String,
    /// The command as typed, or empty when attached to processes.
    pub command: Vec<String>,
    /// Start of the recording on both clocks.
    pub anchor: WallAnchor,
    /// `uname -r`.
    pub kernel: String,
    /// CPU model as `/proc/cpuinfo` names it.
    pub cpu_model: String,
    /// The socket of each CPU that is online.
    pub sockets: BTreeMap<CpuId, SocketId>,
    /// Stack samples that the kernel lets come, per CPU and second, on average.
    pub sample_hz: u32,
    /// How much the distance of two samples varies around the period, which is one second divided by `sample_hz`.
    pub jitter: Jitter,
    /// What drives the sampler, where that is known.
    pub sample_event: Option<SampleEvent>,
    /// Whether every process is a target (`-a`).
    pub system_wide: bool,
    /// Power sources: taken, ignored, and why.
    pub sources: Vec<Source>,
}

/// A program in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number in this recording.
    pub key: ProcessKey,
    /// Its process id.
    pub pid: Pid,
    /// The process that started it, where it was seen.
    pub parent: Option<ProcessKey>,
    /// The kernel's name for it.
    pub name: String,
    /// Its command line, where it could be read.
    pub command: Vec<String>,
    /// Its interpreter, where one was found.
    pub runtime: Option<Runtime>,
}

/// A thread of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number in this recording.
    pub key: ThreadKey,
    /// The program it belongs to.
    pub process: ProcessKey,
    /// Its thread id.
    pub tid: Tid,
    /// The kernel's name for it.
    pub name: String,
}

/// The kinds of frame a stack may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// A CPython function.
    Python,
    /// Machine code of the process.
    Native,
    /// The kernel.
    Kernel,
    /// A GPU kernel.
    Gpu,
    /// A mark in brackets that stands for what is not known or not code: `[unsampled]`, `[no unwind info]`.
    Special,
    /// Machine code of a function that the compiler put into its caller's: a frame by debug information alone.
    Inlined,
    /// No code: a range that the program marks, outermost in the stacks of what runs in it.
    Range,
}

/// A frame: one place in one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Its name, empty until `Record::Name` gives one: Python's qualname without module, a mark with its brackets.
    pub name: String,
    /// Python's module (`torch.autograd`), or the path of the library.
    pub module: String,
    /// Source file, where known.
    pub file: String,
    /// Line of this place in the file; 0 when unknown.
    pub line: u32,
    /// First line of the function; 0 when unknown.
    pub first_line: u32,
    /// File offset of a native frame, address of a kernel frame; 0 otherwise.
    pub address: u64,
}

impl Frame {
    /// A frame that stands for no code, with a name in brackets.
    pub fn special(name: &str) -> Self {
        let (kind, name) = (FrameKind::Special, name.to_owned());
        Self { kind, name, module: String::new(), file: String::new(), line: 0, first_line: 0, address: 0 }
    }

    /// The frame of a range that a program marks.
    pub fn range(name: &str) -> Self {
        Self { kind: FrameKind::Range, ..Self::special(name) }
    }
}

/// Names found for a frame after it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The demangled name, or `library+0xoffset` where there is none.
    pub name: String,
    /// Source file; empty when unknown.
    pub file: String,
    /// Line; 0 when unknown.
    pub line: u32,
}

/// A file whose code was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Its path, as `Frame::module` has it.
    pub path: String,
    /// Its build id in hex.
    pub build_id: String,
}

/// A stack as a linked list: the frame and the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackNode {
    /// The caller's stack; `None` at the outermost frame.
    pub parent: Option<StackId>,
    /// The frame.
    pub frame: FrameId,
}

/// Time on a CPU without interruption by another thread: `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// When it came onto the CPU.
    pub start: KtimeNs,
    /// When it left.
    pub end: KtimeNs,
    /// The CPU.
    pub cpu: CpuId,
    /// Who ran.
    pub who: CpuOwner,
}

/// The CPU time of processes on one CPU between two readings of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTotals {
    /// The CPU.
    pub cpu: CpuId,
    /// The reading before.
    pub start: KtimeNs,
    /// This one.
    pub end: KtimeNs,
    /// Nanoseconds of each process; `Target` has any of its threads.
    pub of: Vec<(CpuOwner, u64)>,
}

/// A stretch of a target's time on a CPU in which no sample came though many were due: the machine stood still, or samples were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsampled {
    /// The CPU.
    pub cpu: CpuId,
    /// Its begin.
    pub start: KtimeNs,
    /// Its end.
    pub end: KtimeNs,
}

/// Who was on a CPU. What no slice covers was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CpuOwner {
    /// A thread of the target.
    Target(ThreadKey),
    /// Other processes and kernel threads, not told apart: short ones by turns, or too many.
    Other,
    /// Another process or kernel thread.
    Background(BackgroundKey),
}

/// A process that is not a target: told apart from others only because it may draw other power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundProcess {
    /// Its number in this recording.
    pub key: BackgroundKey,
    /// Its process id.
    pub pid: Pid,
    /// The kernel's name of the thread that ran; a process whose threads have several names is several entries.
    pub name: String,
}

/// One stack sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: KtimeNs,
    /// Where.
    pub cpu: CpuId,
    /// Who.
    pub thread: ThreadKey,
    /// What it was doing.
    pub stack: StackId,
    /// How whole the stack is.
    pub status: StackStatus,
}

/// A Python thread goes to sleep; its next slice ends the wait. Not every wait is recorded: short ones that follow each other closely
/// are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When.
    pub at: KtimeNs,
    /// Who.
    pub thread: ThreadKey,
    /// What it waits in: Python frames only.
    pub stack: StackId,
}

/// A thread of the target wakes another. Not every wake-up is recorded: a waker that is the same again is left out for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// When.
    pub at: KtimeNs,
    /// Who was woken.
    pub thread: ThreadKey,
    /// Who woke it. Where an interrupt did, this is the thread that was interrupted.
    pub waker: ThreadKey,
}

/// A span of a trace, by its numbers: both zero where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The trace.
    pub trace: u128,
    /// The span.
    pub id: u64,
}

/// How whole a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StackStatus {
    /// Native frames to the outermost one, and all Python frames.
    Complete,
    /// As `Complete`, after this many gaps that were bridged.
    Recovered(u8),
    /// Native frames end early; Python frames, if the thread has any, are all there.
    Truncated(Truncation),
    /// Python frames are missing from a thread that has some.
    PythonLost(PythonLoss),
    /// As `Recovered`, but this many callers were believed without proof; a mark stands at each.
    Guessed(u8),
}

/// Why native frames end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Truncation {
    /// The code has no unwind information (JIT, hand-written assembly).
    NoUnwindInfo,
    /// Tables of this process or library were not ready yet.
    TablesNotReady,
    /// A rule that the unwinder does not know.
    UnsupportedRule,
    /// A page of the stack was not in memory.
    PageFault,
    /// More frames than the limit.
    TooDeep,
    /// The address belongs to no mapping.
    Unmapped,
    /// A frame whose stack does not grow: a damaged or foreign stack.
    BadFrame,
    /// The stack is deeper than the copy that user space unwinds.
    DeeperThanCopy,
    /// The process was gone, or another program, before its memory map could be read.
    ProcessGone,
    /// Registers or memory could not be read at that moment: the kernel was just entered, or switched processes.
    Unreadable,
    /// Native and Python frames are there, but nothing shows how they lie in each other.
    Unanchored,
    /// The program is a 32-bit one: only the function that runs is known.
    Bits32,
}

/// Who unwinds native frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unwinding {
    /// BPF programs; user space where they cannot yet.
    #[default]
    Kernel,
    /// User space alone.
    User,
}

/// Why Python frames are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PythonLoss {
    /// A version whose layout is not known.
    UnknownVersion,
    /// A page was not in memory.
    PageFault,
    /// More frames than the limit.
    TooDeep,
    /// The interpreter was not known yet when the sample was taken.
    NotReady,
    /// The program has several interpreters, and nothing told in which of them the thread ran.
    Ambiguous,
    /// A frame's caller is no frame, or one that was passed before: the process is starting, or has broken its own chain.
    BrokenChain,
    /// Nothing of the process could be read at that moment: the kernel switched processes.
    Unreadable,
}

/// What is known when the recording ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The recording's time: what is attributed lies in `[start, end)`.
    pub start: KtimeNs,
    /// End of the recording's time.
    pub end: KtimeNs,
    /// The command's exit status as a shell shows it, where there was a command that ended.
    pub exit_code: Option<i32>,
    /// What was lost, by reason; reasons that did not occur are left out.
    pub lost: BTreeMap<LossReason, u64>,
    /// Who unwound native frames.
    pub unwinding: Unwinding,
    /// Copies of stacks that user space unwound, by what became of them.
    pub copies: BTreeMap<CopyOutcome, u64>,
    /// Time the BPF programs took, from the kernel's own `bpf_stats`; `None` where the kernel does not say.
    pub bpf_ns: Option<u64>,
    /// CPU time of energy-trace itself.
    pub tracer_cpu_ns: u64,
    /// How long a round of power readings took.
    pub read_latency: Histogram,
    /// How late after its due time a round of readings began.
    pub read_lateness: Histogram,
    /// What is worth knowing before a number is believed.
    pub diagnostics: Vec<RecordingDiagnostic>,
}

/// An `hdrhistogram` of nanoseconds in its V2 serialization (empty: nothing was recorded).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram(pub Vec<u8>);
