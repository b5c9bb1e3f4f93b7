//! What a trace is asked to do, and what is known of it while it runs and at its end.
//!
//! Leaves out doing it (`tracer.rs`).

use crate::sampling::event::EventChoice;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{CopyOutcome, LossReason, RecordingDiagnostic, Unwinding};
use energy_trace_symbols as symbolize;
use energy_trace_system::host::process_times::ProcessTimes;
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// Stack samples per CPU and second.
    pub sample_hz: u32,
    /// What drives the sampler.
    pub sample_event: EventChoice,
    /// Where the root of the file system is, for what the kernel says of the CPU and of its limits.
    pub rootfs: PathBuf,
    /// Keep how long the programs' pushes take, and say it at the end.
    pub push_times: bool,
    /// Every process is a target.
    pub system_wide: bool,
    /// Sum CPU time by process between readings of power, and tell nothing of switches; with `system_wide` alone.
    pub sum_time: bool,
    /// Processes that come into this control group are targets.
    pub group: Option<GroupId>,
    /// Processes of this user alone are targets.
    pub user: Option<u32>,
    /// Who unwinds native frames.
    pub unwinding: Unwinding,
    /// Mebibytes of kernel memory that unwind tables may take.
    pub unwind_mib: u32,
    /// Pass on what the BPF side logs.
    pub verbose: bool,
    /// How much is looked up of native frames.
    pub names: symbolize::Detail,
    /// Whose rights files of packages are opened with; `None`: this process's.
    pub reader: Option<(Uid, Gid)>,
    /// Trace launches on GPUs.
    pub gpu: bool,
    /// Count calls of functions of machine code.
    pub count: bool,
    /// Record the ranges that programs mark.
    pub ranges: bool,
    /// Record ranges between probes of binaries too.
    pub range_probes: bool,
    /// Somebody looks while it is recorded: end slices and find names now and then, not only at the end.
    pub live: bool,
    /// When names are found then.
    pub naming: LiveNaming,
    /// Use only what the oldest kernel has that the probes run on: for tests on newer ones.
    pub oldest_kernel: bool,
}

impl TraceConfig {
    /// What samples a command and records nothing else: the least that has the programs loaded.
    pub fn least(rootfs: PathBuf) -> Self {
        Self {
            sample_hz: 99,
            sample_event: EventChoice::Auto,
            rootfs,
            push_times: false,
            system_wide: false,
            sum_time: false,
            group: None,
            user: None,
            unwinding: Unwinding::Kernel,
            unwind_mib: 1,
            verbose: false,
            names: symbolize::Detail::default(),
            reader: None,
            gpu: false,
            count: false,
            ranges: false,
            range_probes: false,
            live: false,
            naming: LiveNaming::Never,
            oldest_kernel: false,
        }
    }

    /// For an agent: of processes that begin or end nothing is read.
    pub const fn is_always_on(&self) -> bool {
        self.system_wide && self.sum_time && self.live
    }
}

/// When names are found of what is still being recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveNaming {
    /// Every second, as somebody looks.
    #[default]
    Often,
    /// After each window of this length.
    EachWindow(Duration),
    /// Nobody sees them.
    Never,
}

/// What the kernel calls a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId {
    /// Its number in its hierarchy: the inode of its folder.
    pub number: u64,
    /// The number of the hierarchy; 0: that of the second version.
    pub hierarchy: u32,
}

/// Counts while it runs, for the progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Samples so far.
    pub samples: u64,
    /// Events lost so far.
    pub lost: u64,
    /// CPU time so far that found no room to be summed by process.
    pub no_room_ns: u64,
}

/// What is known when tracing ends.
#[derive(Clone, Debug)]
pub struct TraceEnd {
    /// The end of what was seen.
    pub end: KtimeNs,
    /// What was lost, by reason.
    pub lost: BTreeMap<LossReason, u64>,
    /// Time that the BPF programs took.
    pub bpf_ns: Option<u64>,
    /// CPU time of the processes that look into files and programs.
    pub helpers_cpu_ns: u64,
    /// Who unwound native frames.
    pub unwinding: Unwinding,
    /// Copies of stacks that user space unwound, by what became of them.
    pub copies: BTreeMap<CopyOutcome, u64>,
    /// What of targets' time was seen.
    pub account: TraceAccount,
    /// What is worth knowing before a number is believed.
    pub diagnostics: Vec<RecordingDiagnostic>,
}

/// What was seen of who ran, to be held against the kernel's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceAccount {
    /// CPU time of all slices of targets, in nanoseconds.
    pub recorded_ns: u64,
    /// Of these that in which the machine stood still.
    pub paused_ns: u64,
    /// Of turns of which the scheduler's account is known: their length, and that.
    pub switches_and_scheduler_ns: (u64, u64),
    /// Targets that ran when tracing was stopped, and what the kernel had counted of each.
    pub living: Vec<(Pid, ProcessTimes)>,
    /// Those that ran most of all that are no targets.
    pub others: Vec<OtherProcess>,
    /// CPUs on which slices could not be ended.
    pub cpus_out_of_reach: usize,
    /// How long the reader waited for a CPU at most, where that was long.
    pub starved_ns: Option<u64>,
}

/// A process that is no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProcess {
    /// Its number.
    pub pid: Pid,
    /// The kernel's name of a thread of it.
    pub name: String,
    /// Its CPU time.
    pub cpu_ns: u64,
}
