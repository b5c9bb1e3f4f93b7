//! Starting the simulated hardware of `tests/` by hand.

mod gpu;

use anyhow::{Result, bail};
use clap::ValueEnum;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use xtask::command::run;
use xtask::workspace::Workspace;

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which hardware.
    device: Device,
    /// What the simulator is told; `-- --help` shows what it takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Hardware that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Device {
    /// A powercap tree on FUSE, until Ctrl-C; the words that follow go to `powercap-sim`, the first is the folder to mount on.
    Powercap,
    /// A GPU with its libraries: `[--scenario FILE] [--model A100] [--dir FOLDER] -- COMMAND…` runs a command on it and leaves the truth log.
    Gpu,
}

/// `cargo xtask sim`.
pub(crate) fn task(workspace: &Workspace, Options { device, args }: &Options) -> Result<()> {
    match device {
        Device::Powercap => powercap(workspace, args),
        Device::Gpu => gpu::run(workspace, args),
    }
}

/// Becomes the simulator, so that Ctrl-C and the exit status are its own.
fn powercap(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    run(workspace.cargo().args([
        "build",
        "--quiet",
        "--package",
        "energy-trace-tests",
        "--bin",
        "powercap-sim",
    ]))?;
    let mount = args.first().map_or("MOUNT".into(), |first| first.to_string_lossy());
    eprintln!("sim: once the line below says that {mount} is there, in another terminal:");
    eprintln!(
        "    sudo {} record --power powercap --path.sysfs {mount} -- COMMAND",
        workspace.binary().display()
    );
    eprintln!(
        "sim: a COMMAND that declares its watts wants `env POWER_SIM_SOCKET=…`, with the socket of that line\n"
    );
    let program = workspace.target().join("debug/powercap-sim");
    let error = Command::new(&program).args(args).exec();
    bail!("cannot start {}: {error}", program.display())
}
