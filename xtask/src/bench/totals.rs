//! Totals beside other energy meters. The measurement itself is `tests/totals.rs`; this brings the meters.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::frameworks;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench totals`.
pub(crate) fn chore(workspace: &Workspace, _options: &Options) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Test)?;
    bpf::build(workspace, &tools, Warnings::Shown)?;
    let (codecarbon, scaphandre) = frameworks::install_meters(workspace)?;
    let test = ["test", "--quiet", "--package", "energy-trace", "--test", "totals", "--"];
    run(workspace
        .cargo()
        .args(test)
        .args(["--ignored", "--exact", "--nocapture", "totals"])
        .env("PEER_CODECARBON", codecarbon)
        .env("PEER_SCAPHANDRE", scaphandre))
}
