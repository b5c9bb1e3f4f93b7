//! `cargo xtask bench live`: runs the closed loops of `tests/benches/live.rs`. Needs root, /dev/fuse and two CPUs.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Length of each loop in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Loops whose name begins so.
    #[arg(long)]
    only: Option<String>,
    /// Leave each loop's recording and truth in this folder.
    #[arg(long)]
    keep: Option<std::path::PathBuf>,
}

/// Prints the table as Markdown.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Test)?;
    bpf::build(workspace, &tools, Warnings::Shown)?;
    // For release, so that a workload's function is one piece of code, which draws what the simulator is told: without optimisation most
    // of the time is in parts of the standard library that functions of different watts share.
    let package = ["--package", "energy-trace-tests", "--bins"];
    run(workspace.cargo().args(["build", "--quiet", "--release"]).args(package))?;
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace", "--bench", "live", "--"]);
    cargo.args(["--seconds", &options.seconds.to_string()]);
    if let Some(only) = &options.only {
        cargo.args(["--only", only]);
    }
    if let Some(folder) = &options.keep {
        cargo.arg("--keep").arg(std::path::absolute(folder)?);
    }
    run(&mut cargo)
}
