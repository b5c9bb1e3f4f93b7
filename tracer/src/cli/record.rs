//! `energy-trace [record] [OPTIONS] PROGRAM…`: the options of a recording.
//!
//! Leaves out what it means on this machine (`resolve.rs`).

use super::budget::{self, BudgetArgs};
use super::choices;
use super::common::Common;
use super::failure::Failure;
use super::meant;
use super::range_probes;
use super::resolve::{PlanError, resolve};
use super::tips::parse_pid;
use super::work;
use crate::plan::{GpuLevel, RecordPlan};
use crate::session;
use clap::{ArgAction, Args, FromArgMatches as _};
use energy_trace_model::recording::record::{Unwinding, WorkCounter};
use energy_trace_model::units::MicroWatts;
use energy_trace_power::SourceChoice;
use energy_trace_probe::RangeProbe;
use energy_trace_probe::event::EventChoice;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The flame graph, where nobody names it.
pub(super) const SVG: &str = "energy-trace.svg";

/// What the user typed for a recording.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// The program to run, with its arguments; `--` may stand before it
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", conflicts_with_all = ["pid", "cgroup"])]
    pub command: Vec<OsString>,

    /// Attach to these processes and their children
    #[arg(help_heading = "What to record", short, long, value_name = "PID", num_args = 1.., value_delimiter = ',', conflicts_with_all = ["cgroup", "all"],
          value_parser = parse_pid)]
    pub pid: Vec<u32>,

    /// Attach to the processes of a control group: its path below /sys/fs/cgroup, or its name
    #[arg(help_heading = "What to record", long, value_name = "PATH", conflicts_with = "all")]
    pub cgroup: Option<PathBuf>,

    /// Record every process of the machine, until the program ends or Ctrl-C
    #[arg(help_heading = "What to record", short, long)]
    pub all: bool,

    /// With -a, how CPU time is recorded. Sums cost far less where threads switch very often, and tell less: threads share the time of
    /// their process as their samples show, what happens within a tenth of a second is not known, and workers are charged by themselves
    #[arg(help_heading = "Sampling", long, value_name = "WHETHER", action = ArgAction::Set, value_parser = choices::slices(), default_value = "yes", requires = "all")]
    pub slices: bool,

    /// Stop recording after this time: seconds, or 90s, 5m, 1h30m; the program keeps running
    #[arg(help_heading = "What to record", long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// For programs that attach: print a line of JSON when the recording begins, and end it with stdin, or when anything comes there
    #[arg(help_heading = "What to record", long, conflicts_with = "command")]
    pub control: bool,

    /// For a service: record the process at the other end of the unix socket on stdin, processes of its user alone, until it shuts its side
    /// down (an hour, or --duration, at the most), and send it the recording. Nothing that it sends is looked at
    #[arg(long, hide = true, conflicts_with_all = ["command", "pid", "cgroup", "all", "control", "output", "svg"])]
    pub attach_socket: bool,

    /// Recording file to write; an existing one is kept as FILE.old. %r is the rank under srun and mpirun
    #[arg(help_heading = "Output", short, long, value_name = "FILE", default_value = "energy-trace.data")]
    pub output: PathBuf,

    /// Flame graph file to write
    #[arg(help_heading = "Output", long, value_name = "FILE", default_value = SVG)]
    pub svg: PathBuf,

    /// Write no flame graph
    #[arg(help_heading = "Output", long, conflicts_with = "svg")]
    pub no_svg: bool,

    /// Stack samples per second, per CPU, at random distances
    #[arg(help_heading = "Sampling", short = 'F', long, value_name = "HZ", default_value_t = 499, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: u32,

    /// Event that triggers a stack sample
    #[arg(help_heading = "Sampling", long, value_name = "EVENT", value_parser = choices::sample_event(), default_value = "auto")]
    pub sample_event: EventChoice,

    /// Measure how long the BPF programs take to write to their ring buffers, and print it at the end (for `cargo xtask bench freeze`)
    #[arg(long, hide = true)]
    pub push_times: bool,

    /// Where native stacks are unwound
    #[arg(help_heading = "Sampling", long, value_name = "WHERE", value_parser = choices::unwinding(), default_value = "kernel")]
    pub unwind: Unwinding,

    /// Kernel memory limit for the unwind tables of all processes, in MiB; a PyTorch process needs 50 to 110
    #[arg(help_heading = "Sampling", long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub unwind_memory: u32,

    /// Let the BPF programs use only what Linux 5.10 has
    #[arg(long, hide = true)]
    pub oldest_kernel: bool,

    /// Power source
    #[arg(help_heading = "Energy", long, value_name = "SOURCE", help = choices::power_help(), long_help = choices::power_long_help())]
    pub power: Vec<SourceChoice>,

    /// Power readings per second, on average
    #[arg(help_heading = "Energy", long, value_name = "HZ", default_value = "100", default_value_if("slices", "no", "10"), value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub power_hz: u32,

    /// Directory where sysfs is mounted
    #[arg(help_heading = "Energy", long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    pub sysfs: PathBuf,

    /// Root directory of the kernel's files (/proc, /sys), for tests
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/", hide = true)]
    pub rootfs: PathBuf,

    /// NVIDIA's management library (libnvidia-ml.so.1), if it is not where the driver installs it
    #[arg(help_heading = "Energy", long, value_name = "FILE")]
    pub nvml_lib: Option<PathBuf>,

    /// How finely GPU energy is attributed
    #[arg(help_heading = "Energy", long, value_name = "LEVEL", default_value = "launch", value_parser = choices::gpu_level())]
    pub gpu: GpuLevel,

    /// Idle power of all CPU sockets in watts, or of the machine where only its own meter is read, instead of measuring it for one second
    /// before the start
    #[arg(help_heading = "Energy", long, value_name = "W", value_parser = parse_watts)]
    pub idle_watts: Option<MicroWatts>,

    /// Watts for the power model: of the idle machine, and added by each busy CPU
    #[arg(help_heading = "Energy", long, value_name = "idle=W,core=W", value_parser = parse_model)]
    pub model_watts: Option<ModelWatts>,

    /// Fail if there is no energy counter, instead of estimating
    #[arg(help_heading = "Energy", long)]
    pub measured_only: bool,

    /// Name the kernels that oneDNN (in PyTorch, TensorFlow) generates at run time: sets ONEDNN_JIT_PROFILE=2 and DNNL_JIT_PROFILE=2 for
    /// the program
    #[arg(help_heading = "Sampling", long)]
    pub jit_names: bool,

    /// Show source lines and inlined functions of native code, from debug information in libraries or under /usr/lib/debug; takes time
    /// and memory after the run
    #[arg(help_heading = "Sampling", long)]
    pub inlines: bool,

    /// Count calls, exactly: of the entry functions of PyTorch, TensorFlow and Python packages, or of the functions NAME. NAME is
    /// SYMBOL@LIBRARY (at::_ops::*::call@libtorch_cpu), or a function of the program, of Python too (3.12 and later). Each call costs the
    /// program about 1 µs, 2 in Python (0.1 ms where a thread calls a function first), in some functions of machine code 10 to 30; what it cost is said at the end
    #[arg(help_heading = "Sampling", long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = ',')]
    pub count: Vec<String>,

    /// Record the ranges that the program marks: NVTX (C, Python's nvtx, torch.cuda.nvtx, emit_nvtx), Intel's ITT (emit_itt, oneDNN) and
    /// PyTorch's record_function, and the attributes of spans that it publishes (OpenTelemetry's thread context), also of programs that run already.
    /// Shown by `report --by range` and in flame graphs. Needs no GPU; a range costs the program 0.1 µs in C, 0.4 µs by energy_trace.range, 5 µs by record_function. Sets NVTX_INJECTION64_PATH and
    /// INTEL_LIBITTNOTIFY64 for the program, where they are not set, and puts a module on its PYTHONPATH
    #[arg(help_heading = "Sampling", long)]
    pub ranges: bool,

    /// Record as a range what a thread does between static probes of the program or of a library (USDT: sys/sdt.h, DTrace): from the probe
    /// PROVIDER:BEGIN to END, or to the first of several: postgresql:transaction-start,transaction-commit,transaction-abort=transaction. Also of
    /// programs that run already. A probe costs the program about 1 µs; where it asks whether anybody listens, it is told so. Needs Linux 6.6
    #[arg(help_heading = "Sampling", long, value_name = "PROVIDER:BEGIN,END[=NAME]", value_parser = range_probes::parse)]
    pub range_probes: Vec<RangeProbe>,

    /// Show joules per unit of work: token, request, step. SOURCE has the running number of units: calls:FUNCTION counts calls, as
    /// --count does; stdout:REGEX finds it in lines that the program prints, as the first group of a regular expression: step (\d+);
    /// file:PATH is a number that something keeps in a file, read ten times a second as the invoking user; prometheus:URL#METRIC is a
    /// metric of a server on this machine, over http, the sum of all that have the labels:
    /// http://localhost:8000/metrics#tokens_total{model="x"}. Files and pages count from the first unit that is done to the last, calls over
    /// the whole run. What is printed comes through a pipe, or through a terminal of its own where yours is one, which is not for programs
    /// that draw the whole screen or read single keys; a file is read beside the program. A program that holds back what it prints is
    /// counted when it lets go (PYTHONUNBUFFERED=1)
    #[arg(help_heading = "Energy", long, value_name = "NAME=SOURCE", value_parser = work::parse)]
    pub work: Vec<WorkCounter>,

    /// Let --work read pages of metrics from other machines
    #[arg(help_heading = "Energy", long, requires = "work")]
    pub work_allow_remote: bool,

    /// Note types and sizes of the arguments of Python functions (3.12 and later), of a hundred calls of each a second at the most: of the
    /// public functions of packages, or of those that --count names. For `export --format greenlight`
    #[arg(help_heading = "Sampling", long)]
    pub input_sizes: bool,

    /// Under sudo, run the program as root instead of as the user who called sudo
    #[arg(help_heading = "What to record", long)]
    pub as_root: bool,

    #[command(flatten)]
    pub budgets: BudgetArgs,
}

/// The model's parameters that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelWatts {
    /// Power of the machine at rest.
    pub idle: Option<MicroWatts>,
    /// Power that a busy CPU adds.
    pub core: Option<MicroWatts>,
}

/// Options of which none is typed.
pub(super) fn defaults() -> Result<RecordArgs, Failure> {
    let command = RecordArgs::augment_args(clap::Command::new("record").no_binary_name(true));
    let matches = command.try_get_matches_from([""; 0]);
    let defaults = matches.and_then(|matches| RecordArgs::from_arg_matches(&matches));
    defaults.map_err(|error| Failure::usage(error.to_string()))
}

/// Records.
pub(super) fn run(args: &RecordArgs, common: &Common) -> Result<ExitCode, Failure> {
    let recorded = resolve(args, common).map_err(refused).and_then(|plan| run_plan(&plan));
    if let (true, Err(failure)) = (args.attach_socket, &recorded) {
        session::tell_failure(&failure.to_string());
    }
    recorded
}

/// Why options make no recording.
pub(super) fn refused(error: PlanError) -> Failure {
    match error {
        PlanError::User(error) => Failure::own(&error),
        PlanError::Peer(error) => Failure::own(&error),
        usage => Failure::usage(usage.to_string()),
    }
}

/// Records as planned.
pub(super) fn run_plan(plan: &RecordPlan) -> Result<ExitCode, Failure> {
    let other = meant::other_program(plan);
    other.iter().for_each(|(_, warning)| log::warn!("{warning}"));
    let plan = &RecordPlan { program: other.map(|(program, _)| program), ..plan.clone() };
    let ended = meant::refusal(plan).map_or_else(|| session::run(plan), Err);
    ended.map(|ended| budget::exit_code(ended.status, ended.budgets)).map_err(|error| {
        let failure = match &error {
            session::SessionError::NotFound { .. } => Failure::not_found(&error),
            session::SessionError::NotExecutable { .. } => Failure::not_executable(&error),
            _ => Failure::own(&error),
        };
        failure.advise(meant::advice(plan, &error).or_else(|| error.advice()))
    })
}

/// A time with its unit, or a bare number of seconds, as sleep(1) and timeout(1) take it.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bare = text.parse().ok().map(Duration::try_from_secs_f64);
    let parsed = match bare {
        Some(seconds) => seconds.map_err(|error| error.to_string()),
        None => humantime::parse_duration(text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("it must be longer than zero".into()),
        Err(error) => Err(format!("{error}; write it as 30 (seconds), 500ms or 1h30m")),
    }
}

pub(super) fn parse_watts(text: &str) -> Result<MicroWatts, String> {
    let watts = text.parse().ok().and_then(MicroWatts::from_watts);
    watts.ok_or_else(|| "expected watts, such as 12.5".into())
}

/// Parameters of the power model.
pub(super) fn parse_model(text: &str) -> Result<ModelWatts, String> {
    let mut model = ModelWatts::default();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or("expected idle=W,core=W")?;
        let slot = match key.trim() {
            "idle" => &mut model.idle,
            "core" => &mut model.core,
            other => return Err(format!("unknown parameter {other:?}; use idle and core")),
        };
        if slot.replace(parse_watts(value.trim())?).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_model, parse_watts};
    use energy_trace_model::units::MicroWatts;
    use std::time::Duration;

    /// Model parameters come in any order, each once, and nothing else is taken for one.
    #[test]
    fn model_watts() {
        let both = parse_model("core=8.5, idle=20").unwrap();
        assert_eq!((both.idle, both.core), (MicroWatts::from_watts(20.0), MicroWatts::from_watts(8.5)));
        assert_eq!(parse_model("idle=3").unwrap().core, None);
        for wrong in ["", "20", "idle", "idle=x", "idle=-1", "idle=1,idle=2", "uncore=3", "idle=1,"] {
            assert!(parse_model(wrong).is_err(), "{wrong}");
        }
    }

    /// Watts are a finite number that is not negative.
    #[test]
    fn watts() {
        assert_eq!(parse_watts("0"), Ok(MicroWatts::from_uw(0)));
        for wrong in ["nan", "inf", "-0.1", "1e12", "5W", ""] {
            assert!(parse_watts(wrong).is_err(), "{wrong}");
        }
    }

    /// Times have a unit or are seconds; no time at all is refused.
    #[test]
    fn durations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0s", "-1", "-1s", "inf", "nan", "1e300", "soon"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
