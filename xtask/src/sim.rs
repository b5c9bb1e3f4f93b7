//! Starting the simulated hardware of `tests/` by hand.

use crate::command::run;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Hardware that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// A powercap tree on FUSE; the words that follow go to the simulator.
    Powercap,
    /// A `libnvidia-ml.so.1`; the words that follow are a command to run with it.
    Nvml,
}

/// `cargo xtask sim`.
pub(crate) fn chore(workspace: &Workspace, device: Device, args: &[OsString]) -> Result<()> {
    match device {
        Device::Powercap => powercap(workspace, args),
        Device::Nvml => nvml(workspace, args),
    }
}

fn powercap(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    run(workspace.cargo().args([
        "build",
        "--quiet",
        "--package",
        "energy-trace-tests",
        "--bin",
        "powercap-sim",
    ]))?;
    eprintln!("sim: DIR below is the folder that powercap-sim mounts on. In another terminal:");
    eprintln!(
        "    sudo {} record --power powercap --path.sysfs DIR -- COMMAND\n",
        workspace.binary().display()
    );
    become_program(Command::new(workspace.target().join("debug/powercap-sim")).args(args))
}

fn nvml(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    run(workspace.cargo().args(["build", "--quiet", "--package", "nvml-sim"]))?;
    let folder = workspace.target().join("sim/nvml");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let library = folder.join("libnvidia-ml.so.1");
    fs::copy(workspace.target().join("debug/libnvml_sim.so"), &library)
        .with_context(|| format!("cannot write {}", library.display()))?;
    eprintln!("sim: a simulated NVML is ready:");
    eprintln!(
        "    sudo {} record --power nvml --nvml-lib {} -- COMMAND\n",
        workspace.binary().display(),
        library.display()
    );
    match args.split_first() {
        None => Ok(()),
        Some((program, rest)) => {
            become_program(Command::new(program).args(rest).env("LD_LIBRARY_PATH", &folder))
        }
    }
}

/// Replaces this process, so that Ctrl-C and the exit status are the simulator's own.
fn become_program(command: &mut Command) -> Result<()> {
    let error = command.exec();
    bail!("cannot start {}: {error}", command.get_program().display())
}
