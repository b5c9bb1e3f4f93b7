//! Benchmarks: commands that print figures, never assertions. One file a benchmark.

mod accuracy;
mod live;

use crate::workspace::Workspace;
use anyhow::Result;

/// What is measured.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// How far attribution is from a known truth, on a virtual clock, beside a split by CPU time alone.
    Accuracy(accuracy::Options),
    /// The same live: real BPF programs, simulated power counters, and the workload's own truth.
    Live(live::Options),
}

/// `cargo xtask bench`.
pub(crate) fn chore(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Accuracy(options) => accuracy::chore(workspace, options),
        Bench::Live(options) => live::chore(workspace, options),
    }
}
