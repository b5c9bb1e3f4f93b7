//! `cargo xtask bench accuracy`: runs the virtual-clock benchmark of `tests/benches/accuracy.rs`, built for speed.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each scenario.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first of their seeds: what is tuned is tuned on other seeds than the table's.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Scenarios whose name begins so.
    #[arg(long)]
    only: Option<String>,
    /// Write the table and its numbers to tests/fixtures, where a test keeps them true.
    #[arg(long)]
    write: bool,
}

/// Prints the table as Markdown.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Build)?;
    bpf::build(workspace, &tools, Warnings::Shown)?;
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace", "--bench", "accuracy", "--"]);
    cargo.args(["--seeds", &options.seeds.to_string()]);
    cargo.args(["--from", &options.from.to_string()]);
    if let Some(only) = &options.only {
        cargo.args(["--only", only]);
    }
    if options.write {
        cargo.arg("--write").arg(workspace.root().join("tests/fixtures"));
    }
    run(&mut cargo)
}
