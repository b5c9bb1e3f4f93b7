//! Benchmarks: they print tables and assert nothing, because machines differ and lose time. One file a benchmark.

mod cost;

use crate::workspace::Workspace;
use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// What a sample costs in the kernel, by depth of stack, and on PyTorch and numpy.
    Cost(cost::Options),
}

/// `cargo xtask bench`.
pub(crate) fn chore(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Cost(options) => cost::chore(workspace, options),
    }
}
