//! `energy-trace [record] [OPTIONS] -- COMMAND…`: what can be asked of a recording.
//!
//! Leaves out what it means on this machine (`resolve.rs`).

use super::choices;
use super::common::Common;
use super::failure::Failure;
use super::resolve::{PlanError, resolve};
use crate::plan::GpuLevel;
use crate::power::SourceChoice;
use crate::probe::event::EventChoice;
use crate::session;
use clap::Args;
use energy_trace_model::recording::record::Unwinding;
use energy_trace_model::units::MicroWatts;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the user typed for a recording.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// The command to run and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "cgroup"])]
    pub command: Vec<OsString>,

    /// Attach to these processes and all below them, until they end
    #[arg(short, long, value_name = "PID", num_args = 1.., value_delimiter = ',', conflicts_with_all = ["cgroup", "all"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,

    /// Attach to the processes of a control group (a folder below /sys/fs/cgroup)
    #[arg(long, value_name = "PATH", conflicts_with = "all")]
    pub cgroup: Option<PathBuf>,

    /// Record every process of the machine, until the command ends or Ctrl-C
    #[arg(short, long)]
    pub all: bool,

    /// Stop recording after this time, such as 30s or 5m; the command runs on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Where to write the recording; an older one is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "energy-trace.data")]
    pub output: PathBuf,

    /// Where to write the flame graph
    #[arg(long, value_name = "FILE", default_value = "energy-trace.svg")]
    pub svg: PathBuf,

    /// Write no flame graph
    #[arg(long, conflicts_with = "svg")]
    pub no_svg: bool,

    /// Stack samples a second on each CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: u32,

    /// What makes the kernel take a sample: auto (hardware cycles, and the CPU clock where the CPU is virtual or has no counters), cycles, or
    /// cpu-clock
    #[arg(long, value_name = "EVENT", value_parser = choices::sample_event(), default_value = "auto")]
    pub sample_event: EventChoice,

    /// Keep how long the BPF programs' pushes into their ring buffers take, and say it at the end (for cargo xtask bench freeze)
    #[arg(long, hide = true)]
    pub push_times: bool,

    /// Who finds the callers of native code: the kernel, by BPF programs with tables made of .eh_frame, or user, this program in user
    /// space, from copies of the stack that the kernel makes at each sample
    #[arg(long, value_name = "WHERE", value_parser = choices::unwinding(), default_value = "kernel")]
    pub unwind: Unwinding,

    /// Kernel memory for the tables that native stacks are unwound by, of all programs together; a PyTorch process needs 50 to 110
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub unwind_memory: u32,

    /// Have the BPF programs use only what Linux 5.10 has, whatever this kernel has
    #[arg(long, hide = true)]
    pub oldest_kernel: bool,

    /// Where joules come from: auto, powercap, perf, nvml, amdgpu, hwmon, model, replay:FILE or none; may be repeated
    #[arg(long, value_name = "SOURCE")]
    pub power: Vec<SourceChoice>,

    /// Power readings a second
    #[arg(long, value_name = "HZ", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub power_hz: u32,

    /// Where sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    pub sysfs: PathBuf,

    /// Where the root of the file system is, for what the kernel offers
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/", hide = true)]
    pub rootfs: PathBuf,

    /// The NVML library, when it is not where the driver puts it
    #[arg(long, value_name = "FILE")]
    pub nvml_lib: Option<PathBuf>,

    /// How far to look into GPUs: off, device (each device's energy as a whole), launch (by the stacks that launch work), or kernel (by the
    /// time that each kernel runs, which CUPTI measures in the command; what that costs a launch is said)
    #[arg(long, value_name = "TIER", default_value = "launch", value_parser = choices::gpu_level())]
    pub gpu: GpuLevel,

    /// Idle power of the machine, instead of measuring it for a second before the start
    #[arg(long, value_name = "W", value_parser = parse_watts)]
    pub idle_watts: Option<MicroWatts>,

    /// Parameters of the power model, such as idle=20,core=8 (watts of the machine at rest, watts a busy CPU adds)
    #[arg(long, value_name = "idle=W,core=W", value_parser = parse_model)]
    pub model_watts: Option<ModelWatts>,

    /// Refuse to estimate: without a power counter, do not record
    #[arg(long)]
    pub measured_only: bool,

    /// Have oneDNN, which PyTorch and TensorFlow compute with, write down the names of the kernels that it makes at run time: sets
    /// ONEDNN_JIT_PROFILE and DNNL_JIT_PROFILE to 2 for the command
    #[arg(long)]
    pub jit_names: bool,

    /// Source lines of native code, and functions that the compiler put into others as frames of their own, where libraries have debug
    /// information: in them, or in files under /usr/lib/debug; takes time and memory after the run
    #[arg(long)]
    pub inlines: bool,

    /// Under sudo, run the command as root instead of as the invoking user
    #[arg(long)]
    pub as_root: bool,
}

/// The model's parameters that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelWatts {
    /// Power of the machine at rest.
    pub idle: Option<MicroWatts>,
    /// Power that a busy CPU adds.
    pub core: Option<MicroWatts>,
}

/// Records.
pub(super) fn run(args: &RecordArgs, common: &Common) -> Result<ExitCode, Failure> {
    let plan = resolve(args, common).map_err(|error| match error {
        PlanError::User(error) => Failure::own(&error),
        usage => Failure::usage(usage.to_string()),
    })?;
    session::run(&plan).map(ExitCode::from).map_err(|error| {
        let failure = match &error {
            session::SessionError::NotFound { .. } => Failure::not_found(&error),
            session::SessionError::NotExecutable { .. } => Failure::not_executable(&error),
            _ => Failure::own(&error),
        };
        failure.advise(error.advice())
    })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("it must be longer than nothing".into()),
        Err(error) => Err(format!("{error}; write it as 30s, 500ms or 1h30m")),
    }
}

fn parse_watts(text: &str) -> Result<MicroWatts, String> {
    let watts = text.parse().ok().and_then(MicroWatts::from_watts);
    watts.ok_or_else(|| "expected watts, such as 12.5".into())
}

fn parse_model(text: &str) -> Result<ModelWatts, String> {
    let mut model = ModelWatts::default();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or("expected idle=W,core=W")?;
        let slot = match key.trim() {
            "idle" => &mut model.idle,
            "core" => &mut model.core,
            other => return Err(format!("there is no parameter {other:?}; there are idle and core")),
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

    /// Times have a unit; no time at all is refused.
    #[test]
    fn durations() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        for wrong in ["30", "0s", "-1s", "soon"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
