//! `energy-trace doctor`: can this machine record?

use super::common::Common;
use super::failure::Failure;
use super::output::write_to;
use crate::doctor::{self, DoctorPlan};
use clap::Args;
use energy_trace_system::privileges::refuse_what_lends;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the user typed after `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Directory where sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    pub sysfs: PathBuf,

    /// Root directory of the kernel's files (/proc, /sys), for tests
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/", hide = true)]
    pub rootfs: PathBuf,

    /// NVIDIA's management library (libnvidia-ml.so.1), if it is not where the driver installs it
    #[arg(long, value_name = "FILE")]
    pub nvml_lib: Option<PathBuf>,
}

/// Examines this machine. Ends with 0 when the main job can run, else with 1.
pub(super) fn run(args: &DoctorArgs, common: &Common) -> Result<ExitCode, Failure> {
    let lending = [
        ("--path.sysfs", args.sysfs != Path::new("/sys")),
        ("--path.rootfs", args.rootfs != Path::new("/")),
        ("--nvml-lib", args.nvml_lib.is_some()),
    ];
    refuse_what_lends(&lending).map_err(|error| Failure::own(&error))?;
    let findings = doctor::examine(&DoctorPlan {
        rootfs: args.rootfs.clone(),
        sysfs: args.sysfs.clone(),
        nvml_lib: args.nvml_lib.clone(),
        typed: std::env::args_os().collect(),
    });
    if !common.quiet {
        let stdout = std::io::stdout();
        let color = common.color.resolve(stdout.is_terminal());
        let width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0);
        write_to(None, |out| match args.json {
            true => doctor::write_json(out, &findings),
            false => doctor::write_text(out, &findings, color, width),
        })?;
    }
    Ok(if doctor::can_record(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
