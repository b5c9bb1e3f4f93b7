//! `cargo xtask bench kill`: the test that kills each of energy-trace's processes (`tests/live/session/kill`), at more moments than a test run has time for.
//!
//! Leaves out what is looked for: the test knows.

use anyhow::Result;
use xtask::command::run;
use xtask::product::{Compiled, test_program};
use xtask::workspace::Workspace;

/// How many moments.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Moments for each role.
    #[arg(long, default_value_t = 50)]
    moments: u32,
    /// Draws the same moments as an earlier run, which printed it.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the test; an error where something was harmed or left.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut cargo = test_program(workspace, Compiled::Debug, "live")?;
    cargo.args(["session::kill", "--", "--nocapture"]);
    cargo.env("ENERGY_TRACE_KILLS", options.moments.to_string());
    if let Some(seed) = options.seed {
        cargo.env("ENERGY_TRACE_SEED", seed.to_string());
    }
    run(&mut cargo)
}
