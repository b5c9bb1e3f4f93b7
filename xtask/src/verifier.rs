//! The table of verified instructions: rows of the running kernel, written anew.
//!
//! The work is a test that is otherwise ignored (`tests/verifier.rs`), because only the product loads the programs as the product does.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// `cargo xtask verifier`: prints and writes the rows; the difference is for git to show.
pub(crate) fn chore(workspace: &Workspace) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Build)?;
    bpf::build(workspace, &tools, Warnings::Shown)?;
    let test = ["test", "--quiet", "--package", "energy-trace", "--test", "verifier", "--"];
    run(workspace.cargo().args(test).args([
        "--ignored",
        "--exact",
        "--nocapture",
        "write_rows_of_this_kernel",
    ]))
}
