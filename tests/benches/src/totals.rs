//! Totals beside other energy meters. The measurement itself is `tests/benches/totals.rs`; this brings the meters.

use anyhow::Result;
use xtask::command::run;
use xtask::frameworks;
use xtask::product::{build_probes, measurement};
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench totals`.
pub(crate) fn task(workspace: &Workspace, _options: &Options) -> Result<()> {
    build_probes(workspace, Purpose::Test)?;
    let (codecarbon, scaphandre) = frameworks::install_meters(workspace)?;
    run(measurement(workspace, "totals")
        .env("PEER_CODECARBON", codecarbon)
        .env("PEER_SCAPHANDRE", scaphandre))
}
