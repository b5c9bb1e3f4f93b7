//! Building the product for use.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::Result;

/// `cargo xtask build`.
pub(crate) fn chore(workspace: &Workspace) -> Result<()> {
    build(workspace, Purpose::Build)?;
    eprintln!("\n{} is ready. To use it:\n    sudo {0} -- python3 train.py", workspace.binary().display());
    Ok(())
}

/// Sets up for `purpose`, builds the BPF programs and the release binary.
pub(crate) fn build(workspace: &Workspace, purpose: Purpose) -> Result<()> {
    let tools = setup::run(workspace, purpose)?;
    eprintln!("build: the BPF programs");
    bpf::build(workspace, &tools, Warnings::Shown)?;
    eprintln!("build: energy-trace (release)");
    run(workspace.cargo().args(["build", "--release", "--package", "energy-trace"]))
}
