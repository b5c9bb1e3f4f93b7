//! `cargo xtask bench live`: runs the closed loops of `tests/benches/live`. Needs root, /dev/fuse and two CPUs.

use anyhow::Result;
use xtask::command::run;
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Length of each loop in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Loops whose name begins so.
    #[arg(long)]
    only: Option<String>,
    /// The six programs with one and the same function under several callers, fixed loops and other processes beside them, instead of the loops.
    #[arg(long)]
    table: bool,
    /// Loops of 10 to 100 ms at 99 and 499 Hz, alone on a CPU, instead of the loops.
    #[arg(long, conflicts_with_all = ["table", "load"])]
    short: bool,
    /// Beside other processes of 8 and 20 W: the target keeps no CPU to itself.
    #[arg(long)]
    load: bool,
    /// Runs of each loop.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Instead of loops, the same work so many times: how far runs differ, beside the interval of each.
    #[arg(long, default_value_t = 0)]
    repeats: u32,
    /// Leave each loop's recording and truth in this folder.
    #[arg(long)]
    keep: Option<std::path::PathBuf>,
    /// Record nothing: the table of the recordings that were left in this folder.
    #[arg(long)]
    again: Option<std::path::PathBuf>,
}

/// Prints the table as Markdown.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    product::build(workspace, Purpose::Test)?;
    // For release, so that a workload's function is one piece of code, which draws what the simulator is told: without optimisation most
    // of the time is in parts of the standard library that functions of different watts share.
    let package = ["--package", "energy-trace-tests", "--bins"];
    run(workspace.cargo().args(["build", "--quiet", "--release"]).args(package))?;
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace-tests", "--bench", "live", "--"]);
    cargo.args(["--seconds", &options.seconds.to_string(), "--runs", &options.runs.to_string()]);
    cargo.args(["--repeats", &options.repeats.to_string()]);
    cargo.args(options.short.then_some("--short"));
    cargo.args(options.table.then_some("--table")).args(options.load.then_some("--load"));
    if let Some(only) = &options.only {
        cargo.args(["--only", only]);
    }
    if let Some(folder) = &options.keep {
        cargo.arg("--keep").arg(std::path::absolute(folder)?);
    }
    if let Some(folder) = &options.again {
        cargo.arg("--again").arg(std::path::absolute(folder)?);
    }
    run(&mut cargo)
}
