//! How whole stacks are on real machine learning, in steady state: energy-trace, tables alone, perf and py-spy on the same process.
//!
//! All profilers look at one process one after the other, so the work is the same and none of them sees another. What counts as whole
//! differs, as the tools do, and stands below the table.

use super::figures::{median, ratio};
use super::workload::{Running, WORKLOADS, Workload};
use super::{ours, perf, py_spy};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::setup::Purpose;
use xtask::workspace::Workspace;
use xtask::{frameworks, product};

/// `cargo xtask bench completeness`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long each profiler looks, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Samples a second.
    #[arg(long, default_value_t = 99)]
    hz: u32,
    /// Three passes and their medians in place of one.
    #[arg(long)]
    full: bool,
    /// Only energy-trace.
    #[arg(long)]
    alone: bool,
    /// Only these workloads: torch-resnet, torch-ncf, tf1-session, keras-fit, onnxruntime, jax.
    #[arg(long)]
    only: Vec<String>,
}

/// What was seen of one workload in one pass.
#[derive(Debug, Default)]
struct Pass {
    ours: ours::Stacks,
    perf: perf::Stacks,
    py_spy: py_spy::Stacks,
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    product::build(workspace, Purpose::Build)?;
    frameworks::make_environments(workspace)?;
    let py_spy = frameworks::install_peers(workspace)?;
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let passes = if options.full { 3 } else { 1 };
    let mut seen: BTreeMap<&str, Vec<Pass>> = BTreeMap::new();
    let wanted =
        |workload: &&Workload| options.only.is_empty() || options.only.iter().any(|w| w == workload.name);
    for pass in 1..=passes {
        for workload in WORKLOADS.iter().filter(wanted) {
            eprintln!("bench: {} (pass {pass} of {passes})", workload.name);
            seen.entry(workload.name)
                .or_default()
                .push(look(workspace, options, workload, &py_spy, &folder)?);
        }
    }
    print(options, &seen);
    Ok(())
}

/// Starts a workload, waits until it is warm, and has every profiler look.
fn look(
    workspace: &Workspace,
    options: &Options,
    workload: &Workload,
    py_spy: &Path,
    folder: &Path,
) -> Result<Pass> {
    let mut running = Running::start(workspace, workload)?;
    running.wait_warm(workload.warm)?;
    let (pid, log, seconds, hz) = (running.pid(), workspace.log(), options.seconds, options.hz);
    let ours = ours::sample(workspace, folder, pid, seconds, hz)?;
    keep(folder, workload)?;
    if options.alone {
        return Ok(Pass { ours, ..Pass::default() });
    }
    Ok(Pass {
        ours,
        perf: of_peer("perf", workload, perf::sample(folder, &log, pid, seconds, hz)),
        py_spy: of_peer("py-spy", workload, py_spy::sample(py_spy, folder, &log, pid, seconds, hz)),
    })
}

/// What a peer saw; nothing where it failed, which is said and ends nothing.
fn of_peer<T: Default>(peer: &str, workload: &Workload, seen: Result<T>) -> T {
    seen.unwrap_or_else(|error| {
        eprintln!("bench: {peer} failed on {}, and has no figure there: {error:#}", workload.name);
        T::default()
    })
}

/// Keeps the recording, to be looked at with `energy-trace report`.
fn keep(folder: &Path, workload: &Workload) -> Result<()> {
    let kept: PathBuf = folder.join(format!("{}.data", workload.name));
    fs::rename(folder.join("ours.data"), kept).context("no recording to keep")
}

#[expect(clippy::print_stdout, reason = "the result of a task")]
fn print(options: &Options, seen: &BTreeMap<&str, Vec<Pass>>) {
    println!("Whole stacks in steady state, % of samples ({} Hz, {} s)\n", options.hz, options.seconds);
    println!(
        "{:<14}{:>9}{:>8}{:>12}{:>8}{:>11}{:>10}{:>10}{:>12}{:>11}",
        "", "samples", "ours", "ours or", "ours", ".eh_frame", "perf", "py-spy", "py-spy sees", "py-spy of"
    );
    println!(
        "{:<14}{:>9}{:>8}{:>12}{:>8}{:>11}{:>10}{:>10}{:>12}{:>11}",
        "workload", "", "native", "all Python", "named", "alone", "dwarf", "--native", "CPU time", "all CPU"
    );
    for workload in WORKLOADS.iter().filter(|workload| seen.contains_key(workload.name)) {
        print_row(workload.name, &seen[workload.name]);
    }
    println!("\nWhy the rest of ours is cut (all passes, % of samples):");
    for (name, passes) in seen {
        println!("    {name:<14}{}", cuts(passes));
    }
    println!("\n{LEGEND}");
}

const LEGEND: &str = "\
ours native: native frames from the leaf to the thread's root, gaps bridged.  ours or all Python: that, or all Python frames of the thread.
ours named: CPU time in functions whose row has a name (in libraries without symbols and in code made at run time some have none).
.eh_frame alone: the same samples without what bridged a gap.  perf: reaches the function in which the thread began; 32 KiB of stack.
py-spy: from the first Python function to a leaf that is known; of all CPU: times the CPU time in threads that it shows at all.";

#[expect(clippy::print_stdout, reason = "the result of a task")]
fn print_row(name: &str, passes: &[Pass]) {
    let percent = |part: fn(&Pass) -> u64, whole: fn(&Pass) -> u64| {
        let seen = passes.iter().filter(|pass| whole(pass) > 0);
        median(seen.map(|pass| 100.0 * ratio(part(pass), whole(pass))).collect())
    };
    let samples: fn(&Pass) -> u64 = |pass| pass.ours.samples;
    let shown = median(passes.iter().map(|pass| ratio(pass.py_spy.time_shown, 10)).collect());
    let py_spy = percent(|pass| pass.py_spy.whole, |pass| pass.py_spy.samples);
    println!(
        "{name:<14}{:>9}{:>8.1}{:>12.1}{:>8.1}{:>11.1}{:>10.1}{py_spy:>10.1}{shown:>12.1}{:>11.1}",
        passes.iter().map(samples).sum::<u64>(),
        percent(|pass| pass.ours.native_whole(), samples),
        percent(|pass| pass.ours.native_whole() + pass.ours.python_whole, samples),
        percent(|pass| pass.ours.named_ns, |pass| pass.ours.ran_ns),
        percent(|pass| pass.ours.by_tables(), samples),
        percent(|pass| pass.perf.whole, |pass| pass.perf.samples),
        py_spy * shown / 100.0,
    );
}

/// The verdicts of stacks that are not whole, the most frequent first.
fn cuts(passes: &[Pass]) -> String {
    let all: u64 = passes.iter().map(|pass| pass.ours.samples).sum();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (verdict, count) in passes.iter().flat_map(|pass| &pass.ours.verdicts) {
        *counts.entry(verdict).or_default() += count;
    }
    let mut cut: Vec<_> =
        counts.into_iter().filter(|(word, _)| !["complete", "healed"].contains(word)).collect();
    cut.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let words: Vec<_> =
        cut.iter().map(|(word, count)| format!("{word} {:.2}", 100.0 * ratio(*count, all))).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
