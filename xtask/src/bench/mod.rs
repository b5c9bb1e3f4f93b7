//! Benchmarks: what energy-trace costs and what it delivers, beside other profilers in the same run.
//!
//! They print tables and assert nothing: machines differ and lose time. One file a benchmark.

mod behalf;

use crate::workspace::Workspace;
use anyhow::Result;

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// How much of a program's energy is charged to the framework call that its user wrote, beside py-spy's samples of the same process.
    Behalf(behalf::Options),
}

/// `cargo xtask bench`.
pub(crate) fn chore(workspace: &Workspace, bench: &Bench) -> Result<()> {
    match bench {
        Bench::Behalf(options) => behalf::chore(workspace, options),
    }
}
