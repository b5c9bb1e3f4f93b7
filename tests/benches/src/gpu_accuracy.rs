//! `cargo xtask bench gpu-accuracy`: runs the benchmark of `tests/benches/gpu_accuracy`, built for speed.

use anyhow::Result;
use std::path::{Path, PathBuf};
use xtask::command::run;
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each line on the virtual clock; 0 leaves it out.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Seconds of each of them, of virtual time.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Live runs of each line, on the simulated GPU (root, BPF); 0 leaves them out.
    #[arg(long, default_value_t = 0)]
    live: u32,
    /// Seconds of each live run.
    #[arg(long, default_value_t = 20)]
    live_seconds: u32,
    /// Live cells whose name has this in it (`kernel/V100/eager`); may be given several times.
    #[arg(long)]
    cell: Vec<String>,
    /// A folder in which the live runs' recordings and logs are kept.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Judges what is kept there again instead of running anything.
    #[arg(long, requires = "keep")]
    again: bool,
    /// Shows each stack of the live runs, with its interval.
    #[arg(long)]
    stacks: bool,
    /// Meters whose name begins so.
    #[arg(long)]
    only: Option<String>,
    /// Where all runs go as JSON, live ones to a file beside it; left out, target/bench/gpu_accuracy.json.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Prints the tables as Markdown. The virtual clock needs the attribution only; live runs need all of the product.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let folder = workspace.target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let json = options.json.clone().unwrap_or_else(|| folder.join("gpu_accuracy.json"));
    if options.seeds > 0 {
        virtual_clock(workspace, options, &json)?;
    }
    let judged = options.live > 0 || options.again;
    if judged { live(workspace, options, &json.with_extension("live.json")) } else { Ok(()) }
}

fn virtual_clock(workspace: &Workspace, options: &Options, json: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace-scenarios", "--bench", "gpu_accuracy", "--"]);
    cargo.args(["--seeds", &options.seeds.to_string(), "--seconds", &options.seconds.to_string()]);
    cargo.args(options.only.iter().flat_map(|only| ["--only", only])).arg("--json").arg(json);
    run(&mut cargo)
}

fn live(workspace: &Workspace, options: &Options, json: &Path) -> Result<()> {
    product::build(workspace, Purpose::Build)?;
    run(workspace.cargo().args(["build", "--quiet", "--release", "--package", "simgpu"]))?;
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "test-programs", "--bench", "gpu_accuracy_live", "--"]);
    cargo.args(["--live", &options.live.to_string(), "--live-seconds", &options.live_seconds.to_string()]);
    cargo.args(options.cell.iter().flat_map(|cell| ["--cell", cell]));
    if let Some(keep) = &options.keep {
        cargo.arg("--keep").arg(std::path::absolute(keep)?);
    }
    for (flag, wanted) in [("--again", options.again), ("--stacks", options.stacks)] {
        cargo.args(wanted.then_some(flag));
    }
    cargo.args(options.only.iter().flat_map(|only| ["--only", only])).arg("--json").arg(json);
    run(&mut cargo)
}
