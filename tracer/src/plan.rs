//! A recording as it will be made: target, rates, outputs, users, terminal.
//!
//! Data only. Leaves out the options that it comes from (`cli/resolve.rs`) and doing it (`session`).

use crate::collector::Endpoint;
use crate::tracee::Target;
use crate::tracee::user::InvokingUser;
use energy_trace_model::recording::record::{Unwinding, WorkCounter};
use energy_trace_power::PowerPlan;
use energy_trace_probe::event::EventChoice;
use energy_trace_probe::{CountName, RangeProbe};
use energy_trace_report::budgets::Budget;
use energy_trace_symbols::Detail;
use nix::unistd::{Gid, Uid};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A recording as it will be made.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    /// Whose energy is recorded.
    pub target: Target,
    /// Whether every other process is a target too.
    pub system_wide: bool,
    /// Whether it is told who ran at each switch; else CPU time is summed between readings of power, which is for `system_wide` alone.
    pub slices: bool,
    /// Whom the command runs as; `None`: as energy-trace itself.
    pub run_as: Option<InvokingUser>,
    /// What is set in the command's environment.
    pub environment: Vec<(&'static str, &'static str)>,
    /// To whom the files belong; `None`: to whoever runs energy-trace.
    pub owner: Option<InvokingUser>,
    /// How much is looked up of native frames.
    pub names: Detail,
    /// Stack samples a second on each CPU.
    pub sample_hz: u32,
    /// What makes the kernel take a sample.
    pub sample_event: EventChoice,
    /// Keep how long the BPF programs' pushes take.
    pub push_times: bool,
    /// Who unwinds native frames.
    pub unwinding: Unwinding,
    /// Mebibytes of kernel memory that unwind tables may take.
    pub unwind_mib: u32,
    /// How far GPU energy is followed.
    pub gpu: GpuLevel,
    /// Functions whose calls are counted, where calls are.
    pub count: Option<Vec<CountName>>,
    /// Record the ranges that programs mark.
    pub ranges: bool,
    /// Record what is between static probes as ranges too.
    pub range_probes: Vec<RangeProbe>,
    /// Units of work that are counted.
    pub work: Vec<WorkCounter>,
    /// Note the sizes of arguments of Python functions.
    pub input_sizes: bool,
    /// Have the probes use only what the oldest kernel has that they run on.
    pub oldest_kernel: bool,
    /// Where joules come from.
    pub power: PowerPlan,
    /// When to stop at the latest.
    pub duration: Option<Duration>,
    /// Whether stdin and stdout lead to a program that has to know when the recording begins, and says when it is to end.
    pub control: bool,
    /// The user at the other end of stdin, who gets the recording, of processes of that user alone.
    pub peer: Option<Uid>,
    /// The recording file.
    pub recording: PathBuf,
    /// The rank of the command among those that were started with it.
    pub rank: Option<u32>,
    /// The flame graph, if one is wanted.
    pub svg: Option<PathBuf>,
    /// The most joules that the run, and calls in it, may use.
    pub budgets: Vec<Budget>,
    /// Show what is recorded while it is, and keep no file.
    pub live: bool,
    /// Show it as metrics, for as long as the machine runs.
    pub agent: Option<AgentPlan>,
    /// How to talk to the user.
    pub screen: Screen,
    /// Where the root of the file system is, for what the kernel offers.
    pub rootfs: PathBuf,
    /// The command line as typed, for advice that repeats it.
    pub typed: Vec<OsString>,
    /// The program's file, where sudo made it another one than the user's shell runs.
    pub program: Option<PathBuf>,
}

/// Where an agent's numbers go, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPlan {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The time from one attribution to the next.
    pub window: Duration,
    /// Millionths of the machine's CPU time that it may take before it samples less often.
    pub most_share: u32,
    /// Where tables go, if they are wanted.
    pub spool: Option<SpoolPlan>,
    /// Where profiles go, if they are wanted.
    pub collector: Option<Endpoint>,
}

/// A folder of tables, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolPlan {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of all files together.
    pub most_bytes: u64,
    /// How old files become.
    pub longest: Duration,
    /// Whose folder it is, as whom the agent runs then; `None`: as itself.
    pub owner: Option<(Uid, Gid)>,
}

/// How to talk to the user, all of it on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Print nothing but errors.
    pub quiet: bool,
    /// Print details.
    pub verbose: bool,
    /// Use colour.
    pub color: bool,
    /// How progress is shown.
    pub progress: ProgressStyle,
    /// Columns of the terminal; `None` when it is none.
    pub width: Option<u16>,
}

/// How progress is shown while a recording runs, and while its results are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressStyle {
    /// Not at all.
    Off,
    /// In one line of a terminal that nobody else writes to, drawn again and again.
    Line,
    /// Not while the command runs, whose terminal it is: nobody can know where its cursor is, or when it writes. Then as a line.
    AfterCommand,
    /// One line a minute, where there is no terminal.
    EachMinute,
}

/// How far GPU energy is followed, from nothing to single kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuLevel {
    /// GPUs are left alone.
    Off,
    /// The energy of each device as a whole.
    Device,
    /// By the stacks that launch work.
    Launch,
    /// By the time of each kernel, measured by a library that is injected into the command.
    Kernel,
}

impl GpuLevel {
    /// Whether launches are traced, where there is a GPU.
    pub fn traces_launches(self) -> bool {
        self >= Self::Launch
    }

    /// Whether kernels are timed.
    pub fn times_kernels(self) -> bool {
        self == Self::Kernel
    }
}
