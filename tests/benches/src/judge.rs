//! `cargo xtask bench judge`: what each part of the attribution is worth (`tests/benches/judge`), on recorded programs with real counters and in
//! simulated worlds. Records programs that are missing, which needs root and a network; the rest needs neither.

use super::results::Measured;
use super::traces;
use anyhow::{Context as _, Result};
use std::fs;
use xtask::command::run;
use xtask::workspace::Workspace;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each recorded program and world [default: 5; with --quick 2].
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of their seeds.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// A part to leave out: bridge, lag, huber; may be given several times [default: each alone].
    #[arg(long, value_name = "PART")]
    without: Vec<String>,
    /// Recorded programs and worlds whose name begins so: torch, W5.
    #[arg(long)]
    only: Option<String>,
    /// The recorded programs alone, and fewer seeds.
    #[arg(long)]
    quick: bool,
    /// Write the table to docs/results/judge.md.
    #[arg(long)]
    write: bool,
}

/// Prints the table as Markdown.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let traces = traces::ensure(workspace)?;
    let mut cargo = workspace.cargo();
    cargo
        .args(["bench", "--quiet", "--package", "energy-trace-scenarios", "--bench", "judge", "--"])
        .arg(traces);
    let seeds = options.seeds.unwrap_or(if options.quick { 2 } else { 5 });
    cargo.args(["--seeds", &seeds.to_string(), "--from", &options.from.to_string()]);
    for part in &options.without {
        cargo.args(["--without", part]);
    }
    if let Some(only) = &options.only {
        cargo.args(["--only", only]);
    }
    if options.quick {
        cargo.arg("--quick");
    }
    if !options.write {
        return run(&mut cargo);
    }
    let (measured, folder) = (Measured::now(workspace)?, tempfile::tempdir()?);
    run(cargo.arg("--write").arg(folder.path()))?;
    let table = fs::read_to_string(folder.path().join("judge.md")).context("the judge left no table")?;
    measured.keep(workspace, "judge", "cargo xtask bench judge --write", &table)
}
