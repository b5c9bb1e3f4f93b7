//! `cargo xtask bench accuracy`: runs the virtual-clock benchmark of `tests/benches/accuracy`, built for speed. It needs no BPF and no set-up,
//! but for what `--traced` records (`traces.rs`).

use super::results::Measured;
use super::traces;
use anyhow::Result;
use std::fs;
use std::path::Path;
use xtask::command::run;
use xtask::workspace::Workspace;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each world and scenario [default: 6 of worlds, 20 of scenarios].
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of their seeds.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Worlds and scenarios whose name begins so: W3, B.
    #[arg(long, alias = "only")]
    world: Option<String>,
    /// Show the seeds (2, 5, 8, …) and worlds (H…) that nobody tunes on, and nothing else.
    #[arg(long)]
    held_out: bool,
    /// Samples per CPU and second; may be given several times [default: 99 and 499].
    #[arg(long)]
    rate: Vec<u64>,
    /// Readings of the counter per second [default: 50].
    #[arg(long)]
    read_hz: Option<u64>,
    /// Sample at even periods, not at half to one and a half of them.
    #[arg(long)]
    periodic: bool,
    /// Read the counter at even intervals, not after half to one and a half of them.
    #[arg(long, conflicts_with = "traced")]
    even_readings: bool,
    /// Show each node that is far from the truth or whose interval misses it.
    #[arg(long)]
    details: bool,
    /// Show errors by reading rate and by sampling rate in four worlds, beside what bounds them from below.
    #[arg(long)]
    curves: bool,
    /// Recorded programs with drawn watts in place of the worlds and scenarios; records those that are missing, which needs root.
    #[arg(long)]
    traced: bool,
    /// With `--traced`: leave out the processes that ran beside the programs when they were recorded.
    #[arg(long, requires = "traced")]
    alone: bool,
    /// Write the tables to docs/results and their numbers to tests/fixtures, where tests keep them true.
    #[arg(long)]
    write: bool,
}

/// Prints the tables as Markdown.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace-scenarios", "--bench"]);
    cargo.args([if options.traced { "traced" } else { "accuracy" }, "--"]);
    if options.traced {
        cargo.arg(traces::ensure(workspace)?);
    }
    cargo.args(["--from", &options.from.to_string()]);
    for (option, value) in [("--seeds", options.seeds), ("--read-hz", options.read_hz)] {
        if let Some(value) = value {
            cargo.args([option, &value.to_string()]);
        }
    }
    for rate in &options.rate {
        cargo.args(["--rate", &rate.to_string()]);
    }
    if let Some(world) = &options.world {
        cargo.args(["--world", world]);
    }
    let switches = [
        ("--held-out", options.held_out),
        ("--periodic", options.periodic),
        ("--even-readings", options.even_readings),
        ("--details", options.details),
        ("--curves", options.curves),
        ("--alone", options.alone),
    ];
    cargo.args(switches.iter().filter(|(_, on)| *on).map(|(switch, _)| switch));
    if !options.write {
        return run(&mut cargo);
    }
    let (measured, folder) = (Measured::now(workspace)?, tempfile::tempdir()?);
    run(cargo.arg("--write").arg(folder.path()))?;
    keep(workspace, &measured, folder.path())
}

/// Puts each table that was made into its page, and its numbers where a test compares them.
fn keep(workspace: &Workspace, measured: &Measured, folder: &Path) -> Result<()> {
    for (name, page) in [("worlds_table", "worlds"), ("accuracy_table", "scenarios")] {
        let made = folder.join(name);
        if let Ok(table) = fs::read_to_string(made.with_extension("md")) {
            let numbers = workspace.root().join("tests/fixtures").join(name).with_extension("json");
            fs::copy(made.with_extension("json"), numbers)?;
            measured.keep(workspace, page, "cargo xtask bench accuracy --write", &table)?;
        }
    }
    Ok(())
}
