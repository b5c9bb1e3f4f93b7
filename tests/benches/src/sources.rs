//! What reading power costs. The measurement itself is `tests/benches/power_cost.rs`, built for release.

use anyhow::Result;
use xtask::command::run;
use xtask::product::{build_probes, measurement};
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench sources`.
pub(crate) fn task(workspace: &Workspace, _options: &Options) -> Result<()> {
    build_probes(workspace, Purpose::Test)?;
    run(&mut measurement(workspace, "power_cost"))
}
