//! Benchmarks: what energy-trace costs and what it delivers, beside other profilers in the same run.
//!
//! They print tables and assert nothing: machines differ and lose time. One file a benchmark.

mod completeness;
mod figures;
mod ours;
mod paced;
mod perf;
mod py_spy;
mod slowdown;
mod workload;

use crate::workspace::Workspace;
use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// How many samples of real machine learning carry a whole stack, beside perf and py-spy on the same processes.
    Completeness(completeness::Options),
    /// How much slower a program runs while it is profiled, beside py-spy, perf and bpftrace.
    Slowdown(slowdown::Options),
}

/// `cargo xtask bench`.
pub(crate) fn chore(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Completeness(options) => completeness::chore(workspace, options),
        Bench::Slowdown(options) => slowdown::chore(workspace, options),
    }
}
