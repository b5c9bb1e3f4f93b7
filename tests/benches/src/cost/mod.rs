//! `bench cost`: nanoseconds of the sampler per sample, by the kernel's own count (bpf_stats), of the product as it is.
//!
//! The time is the program's alone, without the interrupt around it and without the reader in user space; the kernel's bookkeeping
//! (40 to 80 ns a run) is in it. The mean is of a time in which nobody looked. Median and p99 need a reading between any two samples, and
//! each reading interrupts the workload and takes room in its caches: with a workload of several threads they come out higher than
//! without. Programs of known depth have a CPU to themselves, above all others by `SCHED_FIFO`, so that what is
//! measured is the sampler and not what other programs did to the caches; PyTorch and numpy run as they do. Leaves out `sched_switch`.

#![expect(clippy::print_stdout, reason = "the table is the result")]

mod intervals;
pub(super) mod probe_stats;
mod together;
mod workloads;

use crate::chain;
use anyhow::{Context as _, Result, ensure};
use intervals::{Intervals, Reading};
use probe_stats::Sampler;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use workloads::Workload;
use xtask::command::{is_root, read_output};
use xtask::frameworks;
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

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
    /// Have these builds record one process at the same time; print what a sample costs in each, and its ratio to the first.
    #[arg(long, requires = "binary")]
    together: bool,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Sampling rates.
const RATES: [u32; 2] = [99, 999];

/// `cargo xtask bench cost`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    ensure!(is_root(), "energy-trace loads BPF programs: run this as root");
    let mut binaries = options.binary.clone();
    if binaries.is_empty() {
        product::build(workspace, Purpose::Build)?;
        frameworks::install_torch(workspace)?;
        binaries.push(workspace.binary());
    }
    let folder = workspace.target().join("workloads");
    let chain = chain::build(&folder)?;
    let workloads = workloads::all(&chain, workspace);
    let wanted = || workloads.iter().filter(|workload| workload.name.contains(&options.only));
    if options.together {
        return wanted().try_for_each(|workload| together::compare(&binaries, workload, options, &folder));
    }
    raise_priority()?;
    println!(
        "{:<28} {:>4} {:>7} {:>9} {:>9} {:>9} {:>9}  build",
        "workload", "Hz", "samples", "median", "p99", "mean ns", "whole %"
    );
    for workload in wanted() {
        for hz in RATES {
            let seconds = options.seconds * if hz < 500 { 2.0 } else { 1.0 };
            let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); binaries.len()];
            for _ in 0..options.rounds.max(1) {
                for (binary, figures) in binaries.iter().zip(&mut rounds) {
                    figures.push(measure(binary, workload, hz, seconds, &folder)?);
                }
            }
            for (binary, figures) in binaries.iter().zip(&rounds) {
                print_line(workload, hz, figures, binary);
            }
        }
    }
    Ok(())
}

/// Puts this thread before all others but the workload that has a CPU to itself: it must read the counters between two samples.
fn raise_priority() -> Result<()> {
    // What this thread starts is not to run before others too.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    let priority = libc::sched_param { sched_priority: 5 };
    // SAFETY: changes the scheduling of this thread only; `priority` outlives the call.
    let failed = unsafe { libc::sched_setscheduler(0, policy, &raw const priority) } != 0;
    ensure!(!failed, "cannot run before others: {}", io::Error::last_os_error());
    Ok(())
}

/// What one measurement gave, in nanoseconds; the mean is of another time than the rest.
#[derive(Clone, Copy)]
struct Figures {
    samples: usize,
    median: u64,
    p99: u64,
    mean: u64,
    /// Percent of the stacks.
    complete: f64,
}

fn print_line(workload: &Workload, hz: u32, rounds: &[Figures], binary: &Path) {
    let middle = |value: fn(&Figures) -> u64| {
        let mut values: Vec<u64> = rounds.iter().map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let samples: usize = rounds.iter().map(|round| round.samples).sum();
    let complete = rounds.iter().map(|round| round.complete).fold(100.0, f64::min);
    println!(
        "{:<28} {hz:>4} {samples:>7} {:>9} {:>9} {:>9} {complete:>9.1}  {}",
        workload.name,
        middle(|f| f.median),
        middle(|f| f.p99),
        middle(|f| f.mean),
        binary.display()
    );
}

/// Samples a workload that runs already, and watches the sampler.
fn measure(binary: &Path, workload: &Workload, hz: u32, seconds: f64, folder: &Path) -> Result<Figures> {
    let mut target = Running(workload.start()?);
    sleep(Duration::from_secs_f64(workload.warm_up));
    let mut tracer = Running(start(binary, target.0.id(), hz, &folder.join("cost.data"))?);
    let sampler = settle(tracer.0.id()).with_context(|| format!("{} at {hz} Hz", workload.name))?;
    let undisturbed = leave_alone(&sampler, seconds)?;
    let intervals = watch(&sampler, hz, seconds)?;
    target.0.kill()?;
    tracer.0.wait()?; // It ends when its target does.
    let costs = intervals.costs();
    ensure!(!costs.is_empty(), "no interval held exactly one sample of {}", workload.name);
    let at = |share: f64| costs[((costs.len() as f64 * share) as usize).min(costs.len() - 1)];
    let complete = read_complete(binary, &folder.join("cost.data"))?;
    let mean = undisturbed.mean_less(intervals.stranger());
    Ok(Figures { samples: costs.len(), median: at(0.5), p99: at(0.99), mean, complete })
}

fn start(binary: &Path, pid: u32, hz: u32, recording: &Path) -> Result<Child> {
    let log = fs::File::create(recording.with_extension("log"))?;
    let mut command = Command::new(binary);
    command
        .args(["record", "--power", "none", "--no-svg", "--frequency", &hz.to_string(), "--output"])
        .arg(recording)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", binary.display()))
}

/// What the sampler did while nobody looked.
fn leave_alone(sampler: &Sampler, seconds: f64) -> Result<Reading> {
    let before = sampler.read()?;
    sleep(Duration::from_secs_f64(seconds));
    Ok(sampler.read()?.since(before))
}

/// Reads the sampler's counters so often that most intervals hold one sample at most.
fn watch(sampler: &Sampler, hz: u32, seconds: f64) -> Result<Intervals> {
    let pause = Duration::from_secs_f64(0.2 / f64::from(hz));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut intervals = Intervals::beginning(sampler.read()?);
    while Instant::now() < end {
        sleep(pause);
        intervals.add(sampler.read()?);
    }
    Ok(intervals)
}

/// The sampler once it samples and energy-trace rests: it reads files and makes tables first.
fn settle(tracer: u32) -> Result<Sampler> {
    let step = Duration::from_millis(500);
    let patience = Instant::now() + Duration::from_secs(60);
    let mut before = 0;
    while Instant::now() < patience {
        sleep(step);
        let now = read_cpu_ticks(tracer)?;
        let resting = now - before <= 5; // A tenth of the time, in ticks of 10 ms.
        before = now;
        if resting
            && let Ok(sampler) = Sampler::of(tracer)
            && sampler.read()?.taken > 0
        {
            return Ok(sampler);
        }
    }
    // Deep stacks at a high rate keep it busy; the sampler's own time is counted all the same.
    eprintln!("bench: energy-trace was still busy after a minute");
    Sampler::of(tracer)
}

/// CPU time of a process in ticks: fields 14 and 15 of its stat, counted from behind the name, which may hold anything.
fn read_cpu_ticks(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("energy-trace ended early")?;
    let (_, behind) = text.rsplit_once(')').context("a stat has a name")?;
    let fields = behind.split_whitespace().skip(11).take(2);
    Ok(fields.filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// Percent of the recording's samples that are complete or healed: a stack that ends early costs less.
fn read_complete(binary: &Path, recording: &Path) -> Result<f64> {
    let report = read_output(Command::new(binary).args(["report", "--format", "json"]).arg(recording))?;
    let report: serde_json::Value = serde_json::from_str(&report).context("the report is no JSON")?;
    let verdicts = report["meta"]["sampling"]["verdicts"].as_object().context("a report has verdicts")?;
    let of = |key: &str| verdicts.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let all: u64 = verdicts.keys().map(|key| of(key)).sum();
    Ok(100.0 * (of("complete") + of("healed")) as f64 / all.max(1) as f64)
}

/// A program that is ended with this value, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}
