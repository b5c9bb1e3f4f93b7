//! What a recording's options resolve to on this machine: target, rates, outputs, users, terminal.
//!
//! Reads the environment and asks the terminal, but changes nothing. Leaves out doing it (`session`).

use crate::cli::Common;
use crate::cli::record::{Gpu, RecordArgs};
use crate::power::{PowerPlan, SourceChoice};
use crate::probe::event::EventChoice;
use crate::symbolize::Detail;
use crate::tracee::Target;
use crate::tracee::user::{InvokingUser, UserError};
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Unwinding;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::time::Duration;

/// Why the options make no recording.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Nothing to record was named.
    #[error("nothing to record: give a command after `--`, or -p PID, --cgroup PATH or -a")]
    NoTarget,
    /// Recording and flame graph would overwrite each other.
    #[error(
        "the recording and the flame graph are both to be written to {0}: name another file with -o or --svg"
    )]
    SameFile(PathBuf),
    /// Who typed `sudo` could not be made out.
    #[error(transparent)]
    User(#[from] UserError),
}

/// A recording as it will be made.
#[derive(Clone, Debug)]
pub struct RecordPlan {
    /// Whose energy is recorded.
    pub target: Target,
    /// Whether every other process is a target too.
    pub system_wide: bool,
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
    /// Trace launches, where there is a GPU.
    pub launches: bool,
    /// Have kernels timed by a library that is injected into the command.
    pub kernels: bool,
    /// Have the probes use only what the oldest kernel has that they run on.
    pub oldest_kernel: bool,
    /// Where joules come from.
    pub power: PowerPlan,
    /// When to stop at the latest.
    pub duration: Option<Duration>,
    /// The recording file.
    pub recording: PathBuf,
    /// The flame graph, if one is wanted.
    pub svg: Option<PathBuf>,
    /// How to talk to the user.
    pub screen: Screen,
    /// Where the root of the file system is, for what the kernel offers.
    pub rootfs: PathBuf,
    /// The command line as typed, for advice that repeats it.
    pub typed: Vec<OsString>,
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
    /// Show progress while recording: on a terminal, unless it is to be quiet.
    pub progress: bool,
    /// Columns of the terminal; `None` when it is none.
    pub width: Option<u16>,
}

/// Has oneDNN, under its names of all versions, write `/tmp/perf-PID.map` (its developer guide, "Profiling with Linux perf").
const JIT_NAMES: [(&str, &str); 2] = [("ONEDNN_JIT_PROFILE", "2"), ("DNNL_JIT_PROFILE", "2")];

/// Resolves what was typed.
pub fn resolve(args: &RecordArgs, common: &Common) -> Result<RecordPlan, PlanError> {
    let target = target(args)?;
    if !args.no_svg && args.output == args.svg {
        return Err(PlanError::SameFile(args.output.clone()));
    }
    let owner = InvokingUser::from_environment()?;
    let run_as = if args.as_root { None } else { owner.clone() };
    Ok(RecordPlan {
        target,
        system_wide: args.all,
        run_as,
        environment: if args.jit_names { JIT_NAMES.to_vec() } else { Vec::new() },
        owner,
        names: Detail { inlines: args.inlines },
        sample_hz: args.frequency,
        sample_event: args.sample_event,
        push_times: args.push_times,
        unwinding: args.unwind,
        unwind_mib: args.unwind_memory,
        launches: matches!(args.gpu, Gpu::Launch | Gpu::Kernel),
        kernels: args.gpu == Gpu::Kernel,
        oldest_kernel: args.oldest_kernel,
        power: power(args),
        duration: args.duration,
        recording: args.output.clone(),
        svg: (!args.no_svg).then(|| args.svg.clone()),
        screen: screen(common),
        rootfs: args.rootfs.clone(),
        typed: std::env::args_os().collect(),
    })
}

fn target(args: &RecordArgs) -> Result<Target, PlanError> {
    if !args.command.is_empty() {
        return Ok(Target::Command(args.command.clone()));
    }
    if !args.pid.is_empty() {
        return Ok(Target::Processes(args.pid.iter().copied().map(Pid::new).collect()));
    }
    match &args.cgroup {
        Some(group) => Ok(Target::Cgroup(group.clone())),
        None if args.all => Ok(Target::Machine),
        None => Err(PlanError::NoTarget),
    }
}

fn power(args: &RecordArgs) -> PowerPlan {
    let model = args.model_watts.unwrap_or_default();
    PowerPlan {
        choices: if args.power.is_empty() { vec![SourceChoice::Auto] } else { args.power.clone() },
        sysfs: args.sysfs.clone(),
        nvml_lib: args.nvml_lib.clone(),
        idle: args.idle_watts,
        model_idle: model.idle,
        model_core: model.core,
        measured_only: args.measured_only,
        gpu: args.gpu != Gpu::Off,
        period: Duration::from_secs(1) / args.power_hz.max(1),
    }
}

fn screen(common: &Common) -> Screen {
    let is_terminal = stderr().is_terminal();
    Screen {
        quiet: common.quiet,
        verbose: common.verbose,
        color: common.color.resolve(is_terminal),
        progress: is_terminal && !common.quiet,
        width: terminal_size::terminal_size_of(stderr()).map(|(width, _)| width.0),
    }
}
