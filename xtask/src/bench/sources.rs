//! What reading power costs. The measurement itself is `tests/benches/power_cost.rs`, built for release.

use crate::command::run;
use crate::product::{build_probes, measurement};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::Result;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench sources`.
pub(crate) fn task(workspace: &Workspace, _options: &Options) -> Result<()> {
    build_probes(workspace, Purpose::Test)?;
    run(&mut measurement(workspace, "power_cost"))
}
