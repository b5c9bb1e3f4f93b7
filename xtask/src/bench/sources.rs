//! What reading power costs. The measurement itself is `tests/power_cost.rs`, built for release.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench sources`.
pub(crate) fn chore(workspace: &Workspace, _options: &Options) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Test)?;
    bpf::build(workspace, &tools, Warnings::Shown)?;
    let test = ["test", "--quiet", "--release", "--package", "energy-trace", "--test", "power_cost", "--"];
    run(workspace.cargo().args(test).args(["--ignored", "--exact", "--nocapture", "reader_cost"]))
}
