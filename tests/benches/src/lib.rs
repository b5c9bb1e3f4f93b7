//! Benchmarks: what energy-trace costs and what it delivers, beside other tools in the same run.
//!
//! They print tables and assert nothing: machines differ and lose time. One file a benchmark; `results` keeps tables in `docs/results`, and
//! `kernels` tries other kernels and `sim` starts simulated hardware. Leaves out installing what they need (`xtask`).

mod accuracy;
mod agent;
mod behalf;
mod chain;
mod completeness;
mod cost;
mod figures;
mod freeze;
mod gpu_accuracy;
mod gpu_cost;
mod judge;
mod kernels;
mod kill;
mod live;
mod ours;
mod paced;
mod perf;
mod perf_event;
mod py_spy;
mod ranges;
mod results;
mod sim;
mod slowdown;
mod sources;
mod start;
mod totals;
mod traces;
mod workload;

use anyhow::Result;
use clap::Parser as _;
use std::process::ExitCode;
use xtask::workspace::Workspace;

/// `cargo xtask bench`.
#[derive(Debug, clap::Parser)]
#[command(bin_name = "cargo xtask bench", disable_help_subcommand = true)]
struct Cli {
    /// Also keep the tables in docs/results/PAGE.md, with date, commit and machine.
    #[arg(long, value_name = "PAGE")]
    save: Option<String>,
    /// What.
    #[command(subcommand)]
    what: Bench,
}

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// How far attribution is from a known truth, on a virtual clock, beside a split by CPU time alone.
    Accuracy(accuracy::Options),
    /// What each part of the attribution is worth: a table of recorded programs on real counters and of simulated worlds, with each part left out.
    Judge(judge::Options),
    /// Attribution live: real BPF programs, simulated power counters, and the workload's own truth.
    Live(live::Options),
    /// How many samples of real machine learning carry a whole stack, beside perf and py-spy on the same processes.
    Completeness(completeness::Options),
    /// How much slower a program runs while it is profiled, beside py-spy, perf and bpftrace.
    Slowdown(slowdown::Options),
    /// What a sample costs in the kernel, by depth of stack, and on PyTorch and numpy.
    Cost(cost::Options),
    /// What reading power costs at 50 and at 1,000 readings a second: CPU, how long a round takes, how late it begins.
    Sources(sources::Options),
    /// What energy-trace, CodeCarbon and Scaphandre say a run spent, against the one simulated counter that all of them read.
    Totals(totals::Options),
    /// Whether a recording makes the machine stand still: push times inside the BPF programs, and a watchdog on each CPU.
    Freeze(freeze::Options),
    /// SIGKILL to each of energy-trace's processes at many random moments: what becomes of the program that is recorded, and what is left.
    Kill(kill::Options),
    /// Memory of energy-trace while it records a PyTorch training, and how soon it has its first sample and all unwind tables.
    Start(start::Options),
    /// How much of a program's energy is charged to the framework call that its user wrote, beside py-spy's samples of the same process.
    Behalf(behalf::Options),
    /// How far a GPU's joules by launch stack are from a known truth, by meter and tier, beside splits by duration and by launch count.
    GpuAccuracy(gpu_accuracy::Options),
    /// What a launch on a GPU costs the program that launches, by tier, and how much slower a launch-bound loop gets.
    GpuCost(gpu_cost::Options),
    /// What a range that a program marks costs it, alone and recorded.
    Ranges(ranges::Options),
    /// What an agent costs a busy machine, or an idle one, beside another program.
    Agent(agent::Options),
    /// Boot other kernels under an emulator, record there with the same BPF programs, and check the stacks. Needs no root.
    Kernels(kernels::Options),
    /// Start simulated power hardware and say how to point energy-trace at it.
    Sim(sim::Options),
}

/// Does what was typed.
pub fn main() -> ExitCode {
    let Cli { save, what } = Cli::parse();
    let done = Workspace::find().and_then(|workspace| match save {
        Some(page) => results::run_and_keep(&workspace, &page),
        None => measure(&workspace, &what),
    });
    xtask::status(done)
}

fn measure(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Accuracy(options) => accuracy::task(workspace, options),
        Bench::Judge(options) => judge::task(workspace, options),
        Bench::Live(options) => live::task(workspace, options),
        Bench::Completeness(options) => completeness::task(workspace, options),
        Bench::Slowdown(options) => slowdown::task(workspace, options),
        Bench::Cost(options) => cost::task(workspace, options),
        Bench::Sources(options) => sources::task(workspace, options),
        Bench::Totals(options) => totals::task(workspace, options),
        Bench::Freeze(options) => freeze::task(workspace, options),
        Bench::Kill(options) => kill::task(workspace, options),
        Bench::Start(options) => start::task(workspace, options),
        Bench::Behalf(options) => behalf::task(workspace, options),
        Bench::GpuAccuracy(options) => gpu_accuracy::task(workspace, options),
        Bench::GpuCost(options) => gpu_cost::task(workspace, options),
        Bench::Ranges(options) => ranges::task(workspace, options),
        Bench::Agent(options) => agent::task(workspace, options),
        Bench::Kernels(options) => kernels::task(workspace, options),
        Bench::Sim(options) => sim::task(workspace, options),
    }
}
