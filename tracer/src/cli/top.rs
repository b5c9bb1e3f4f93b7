//! `energy-trace top`: what draws power now, of a recording that is shown while it is made and kept nowhere.
//!
//! Its options are those of a recording, as far as they mean something here. Leaves out recording (`session`) and the screen (`top`).

use super::choices;
use super::common::{Common, is_dumb};
use super::failure::Failure;
use super::record::{self, ModelWatts, RecordArgs, parse_model};
use super::resolve::resolve;
use super::tips::parse_pid;
use super::work;
use crate::plan::{GpuLevel, ProgressStyle};
use clap::Args;
use energy_trace_model::recording::record::WorkCounter;
use energy_trace_power::SourceChoice;
use std::ffi::OsString;
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `top`.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// The program to run and watch; what it would read from and write to the terminal is /dev/null. Without any: the whole machine
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", conflicts_with_all = ["pid", "cgroup", "all"])]
    pub command: Vec<OsString>,

    /// Watch these processes and their children
    #[arg(short, long, value_name = "PID", num_args = 1.., value_delimiter = ',', conflicts_with_all = ["cgroup", "all"],
          value_parser = parse_pid)]
    pub pid: Vec<u32>,

    /// Watch the processes of a control group: its path below /sys/fs/cgroup, or its name
    #[arg(long, value_name = "PATH", conflicts_with = "all")]
    pub cgroup: Option<PathBuf>,

    /// Watch every process of the machine (the default)
    #[arg(short, long)]
    pub all: bool,

    /// Stack samples per second, per CPU, at random distances
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 199, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: u32,

    /// Power source
    #[arg(long, value_name = "SOURCE", help = choices::power_help(), long_help = choices::power_long_help())]
    pub power: Vec<SourceChoice>,

    /// Directory where sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    pub sysfs: PathBuf,

    /// How finely GPU energy is attributed
    #[arg(long, value_name = "LEVEL", default_value = "launch", value_parser = choices::gpu_level())]
    pub gpu: GpuLevel,

    /// Watts for the power model: of the idle machine, and added by each busy CPU
    #[arg(long, value_name = "idle=W,core=W", value_parser = parse_model)]
    pub model_watts: Option<ModelWatts>,

    /// Show joules per unit of work, as `record` does, of the last window and since the start
    #[arg(long, value_name = "NAME=SOURCE", value_parser = work::parse)]
    pub work: Vec<WorkCounter>,

    /// Let --work read pages of metrics from other machines
    #[arg(long, requires = "work")]
    pub work_allow_remote: bool,

    /// Under sudo, run the program as root instead of as the user who called sudo
    #[arg(long)]
    pub as_root: bool,
}

/// Why nothing is drawn.
const NO_TERMINAL: &str = "top draws on a terminal and reads keys from it, and standard input or output is none, \
     or TERM is dumb; to keep what is measured in a file, use `energy-trace record`";

/// Shows.
pub(super) fn run(args: &TopArgs, common: &Common) -> Result<ExitCode, Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() || is_dumb() {
        return Err(Failure::usage(NO_TERMINAL.to_owned()));
    }
    let mut plan = resolve(&recording(args)?, common).map_err(record::refused)?;
    plan.live = true;
    plan.svg = None;
    plan.screen.color = common.color.resolve(true);
    plan.screen.progress = ProgressStyle::Off;
    // What is said at the end is the screen's.
    plan.screen.quiet = true;
    record::run_plan(&plan)
}

/// The same as options of a recording.
fn recording(args: &TopArgs) -> Result<RecordArgs, Failure> {
    let all = args.all || (args.command.is_empty() && args.pid.is_empty() && args.cgroup.is_none());
    Ok(RecordArgs {
        command: args.command.clone(),
        pid: args.pid.clone(),
        cgroup: args.cgroup.clone(),
        all,
        frequency: args.frequency,
        power: args.power.clone(),
        sysfs: args.sysfs.clone(),
        gpu: args.gpu,
        model_watts: args.model_watts,
        work: args.work.clone(),
        work_allow_remote: args.work_allow_remote,
        as_root: args.as_root,
        ..record::defaults()?
    })
}

#[cfg(test)]
mod tests {
    use super::super::command_line::{Command, parse};
    use super::recording;

    fn recorded(line: &str) -> super::RecordArgs {
        let Some(Command::Top(args)) = parse(line.split(' ')).unwrap().command else { panic!("{line}") };
        recording(&args).unwrap()
    }

    /// Without a target the machine is watched; a target and rates are those that were typed.
    #[test]
    fn targets() {
        assert!(recorded("energy-trace top").all);
        let program = recorded("energy-trace top -F 50 sh -c true");
        assert_eq!((program.all, program.frequency, program.command.len()), (false, 50, 3));
        let pids = recorded("energy-trace top -p 7,8");
        assert_eq!((pids.all, pids.pid), (false, vec![7, 8]));
        assert!(parse(["energy-trace", "top", "-a", "--", "sh"]).is_err());
    }
}
