//! Benchmarks: what energy-trace costs and what it delivers, beside other profilers in the same run.
//!
//! They print tables and assert nothing: machines differ and lose time. One file a benchmark.

mod start;

use crate::workspace::Workspace;
use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Memory of energy-trace while it records a PyTorch training, and how soon it has its first sample and all unwind tables.
    Start(start::Options),
}

/// `cargo xtask bench`.
pub(crate) fn chore(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Start(options) => start::chore(workspace, options),
    }
}
