//! The simulated GPU for the guest: its libraries, its machine, and a program that launches work.

use anyhow::{Context as _, Result};
use simgpu::faces::{self, Prologue};
use simgpu::meter::Meter;
use simgpu::scenario::WORKLOADS;
use simgpu::{Place, Scenario};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::command::run;
use xtask::workspace::Workspace;

/// Makes it in `folder`, which is to lie at `/work/gpu` in the guest.
pub(crate) fn build(workspace: &Workspace, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    run(workspace.cargo().args(["build", "--quiet", "--package", "simgpu"]))?;
    let libraries = folder.join("lib");
    faces::build(&libraries, &workspace.target().join("debug/libsimgpu.so"), Prologue::EndbrPush)?;
    let source = workspace.root().join("tests/workloads/gpu_mix.c");
    let linked = ["-l:libcudart.so.12", "-l:libsimgpu.so"];
    faces::compile(&source, &folder.join("gpu_mix"), &libraries, &linked)?;
    // An emulated processor has no time to spin while it waits; and the guest's clock begins when it boots.
    let scenario = Scenario { spin: false, ..Scenario::new(Meter::default(), &WORKLOADS) };
    Place::create_since(&folder.join("machine"), &scenario, 0).context("cannot make the simulated GPU")?;
    Ok(())
}

/// The engine, whose own libraries the guest needs.
pub(crate) fn engine(folder: &Path) -> PathBuf {
    folder.join("lib/libsimgpu.so")
}
