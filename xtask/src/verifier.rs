//! The table of verified instructions: rows of the running kernel, written anew.
//!
//! The work is a test that is otherwise ignored (`tests/live/probe/verifier.rs`), because only the product loads the programs as the product does.

use crate::command::run;
use crate::product::{Compiled, build_probes, ignored_test};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::Result;

/// `cargo xtask verifier`: prints and writes the rows; the difference is for git to show.
pub(crate) fn task(workspace: &Workspace) -> Result<()> {
    build_probes(workspace, Purpose::Build)?;
    run(&mut ignored_test(workspace, Compiled::Debug, "live", "probe::verifier::write_rows_of_this_kernel")?)
}
