//! What reading power costs. The measurement itself is `tests/power_cost.rs`, built for release.

use crate::command::run;
use crate::product::{Compiled, build_probes, ignored_test};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::Result;

/// It takes none.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}

/// `cargo xtask bench sources`.
pub(crate) fn chore(workspace: &Workspace, _options: &Options) -> Result<()> {
    build_probes(workspace, Purpose::Test)?;
    run(&mut ignored_test(workspace, Compiled::Release, "power_cost", "reader_cost"))
}
