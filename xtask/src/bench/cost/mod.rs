//! `bench cost`: nanoseconds of the sampler per sample, by the kernel's own count (bpf_stats), of the product as it is.
//!
//! The time is the program's alone, without the interrupt around it and without the reader in user space; the kernel's bookkeeping
//! (40 to 80 ns a run) is in it. Programs of known depth have a CPU to themselves, above all others by `SCHED_FIFO`, so that what is
//! measured is the sampler and not what strangers did to the caches; PyTorch and numpy run as they do. Leaves out `sched_switch`.

mod intervals;
mod probe_stats;
mod workloads;

use crate::chain;
use crate::command::is_root;
use crate::product;
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use intervals::Intervals;
use probe_stats::Sampler;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use workloads::Workload;

/// What to measure, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of each measurement; at 99 Hz twice as long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Times that everything is measured; the median of the runs is printed.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Measure these builds of energy-trace instead, one after the other in each round.
    #[arg(long)]
    binary: Vec<PathBuf>,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Sampling rates.
const RATES: [u32; 2] = [99, 999];

/// `cargo xtask bench cost`.
pub(crate) fn chore(workspace: &Workspace, options: &Options) -> Result<()> {
    ensure!(is_root(), "energy-trace loads BPF programs: run this as root");
    let mut binaries = options.binary.clone();
    if binaries.is_empty() {
        product::build(workspace, Purpose::Demo)?;
        binaries.push(workspace.binary());
    }
    let folder = workspace.target().join("workloads");
    let chain = chain::build(&folder)?;
    let workloads = workloads::all(&chain, workspace);
    println!(
        "{:<28} {:>4} {:>7} {:>9} {:>9} {:>9}  build",
        "workload", "Hz", "samples", "median", "p99", "mean ns"
    );
    for workload in workloads.iter().filter(|workload| workload.name.contains(&options.only)) {
        for hz in RATES {
            for binary in &binaries {
                let mut rounds: Vec<Figures> = Vec::new();
                for _ in 0..options.rounds.max(1) {
                    let seconds = options.seconds * if hz < 500 { 2.0 } else { 1.0 };
                    rounds.push(measure(binary, workload, hz, seconds, &folder)?);
                }
                print_line(workload, hz, &rounds, binary);
            }
        }
    }
    Ok(())
}

/// What one measurement gave, in nanoseconds.
#[derive(Clone, Copy)]
struct Figures {
    samples: usize,
    median: u64,
    p99: u64,
    mean: u64,
}

fn print_line(workload: &Workload, hz: u32, rounds: &[Figures], binary: &Path) {
    let middle = |value: fn(&Figures) -> u64| {
        let mut values: Vec<u64> = rounds.iter().map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let samples: usize = rounds.iter().map(|round| round.samples).sum();
    println!(
        "{:<28} {hz:>4} {samples:>7} {:>9} {:>9} {:>9}  {}",
        workload.name,
        middle(|f| f.median),
        middle(|f| f.p99),
        middle(|f| f.mean),
        binary.display()
    );
}

/// Records a workload and watches its sampler.
fn measure(binary: &Path, workload: &Workload, hz: u32, seconds: f64, folder: &Path) -> Result<Figures> {
    let mut tracer = start(binary, workload, hz, workload.warm_up + seconds + 1.0, folder)?;
    let watched = watch(&tracer, workload, hz, seconds);
    let ended = tracer.wait();
    let intervals = watched.with_context(|| format!("{} at {hz} Hz", workload.name))?;
    ensure!(
        ended?.success(),
        "energy-trace failed on {}; see {}",
        workload.name,
        folder.join("cost.log").display()
    );
    let costs = intervals.costs();
    ensure!(!costs.is_empty(), "no interval held exactly one sample of {}", workload.name);
    let at = |share: f64| costs[((costs.len() as f64 * share) as usize).min(costs.len() - 1)];
    Ok(Figures { samples: costs.len(), median: at(0.5), p99: at(0.99), mean: intervals.mean() })
}

fn start(binary: &Path, workload: &Workload, hz: u32, seconds: f64, folder: &Path) -> Result<Child> {
    let log = fs::File::create(folder.join("cost.log"))?;
    let mut command = Command::new(binary);
    command
        .args(["record", "--power", "none", "--no-svg", "--frequency", &hz.to_string(), "--output"])
        .arg(folder.join("cost.data"))
        .arg("--")
        .args(workload.command(seconds))
        .env("OMP_WAIT_POLICY", "passive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", binary.display()))
}

/// Reads the sampler's counters so often that most intervals hold one sample at most.
fn watch(tracer: &Child, workload: &Workload, hz: u32, seconds: f64) -> Result<Intervals> {
    sleep(Duration::from_secs_f64(workload.warm_up));
    let sampler = Sampler::of(tracer.id()).context("the sampler of energy-trace was not found")?;
    let pause = Duration::from_secs_f64(0.2 / f64::from(hz));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut intervals = Intervals::beginning(sampler.read()?);
    while Instant::now() < end {
        sleep(pause);
        intervals.add(sampler.read()?);
    }
    Ok(intervals)
}
