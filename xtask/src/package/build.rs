//! The release binary and the library beside it, linked for machines with an old C library.
//!
//! `cargo zigbuild` links with the stubs of zig's C library, so that nothing of this machine's is named. Both tools are binaries from PyPI,
//! in the cache folder. Leaves out the BPF object (`bpf.rs`).

use super::floor::{self, FLOOR, Glibc};
use crate::bpf::{self, Warnings};
use crate::command::{find, run, run_logged};
use crate::cross::{self, Cross};
use crate::product::split_debug_of;
use crate::setup::{self, Purpose};
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that were looked at.
const PYTHON: [&str; 3] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.1", "wheel==0.48.0"];
/// What was built.
#[derive(Debug)]
pub(crate) struct Built {
    /// Stripped.
    pub(crate) program: PathBuf,
    /// The program's debug information.
    pub(crate) debug: PathBuf,
    /// What CUDA's driver loads for `--gpu kernel`, stripped.
    pub(crate) library: PathBuf,
    /// The oldest C library that both run with.
    pub(crate) glibc: Glibc,
}

/// The folder with the tools from PyPI; fetches what is missing.
pub(crate) fn tools(workspace: &Workspace) -> Result<PathBuf> {
    let venv = workspace.venvs().join("package");
    let log = workspace.log();
    if PYTHON.iter().any(|wanted| !is_installed(&venv, wanted)) {
        eprintln!("package: {} from PyPI into {}", PYTHON.join(", "), venv.display());
        let python = find("/usr/bin/python3").or_else(|| find("python3")).context("there is no python3")?;
        run_logged(Command::new(python).args(["-m", "venv"]).arg(&venv), &log)?;
        run_logged(Command::new(venv.join("bin/pip")).arg("install").args(PYTHON), &log)?;
    }
    Ok(venv.join("bin"))
}

/// Whether the environment has just that `name==version`: pip leaves a folder of this name.
fn is_installed(venv: &Path, wanted: &str) -> bool {
    let folder = format!("{}.dist-info", wanted.replace('-', "_").replace("==", "-"));
    let Ok(pythons) = venv.join("lib").read_dir() else { return false };
    pythons.flatten().any(|python| python.path().join("site-packages").join(&folder).is_dir())
}

/// Builds all of it for a processor; an error where it would need a newer C library than is promised.
pub(crate) fn build(workspace: &Workspace, tools: &Path, target: Target) -> Result<Built> {
    let bpf_tools = setup::run(workspace, Purpose::Build)?;
    eprintln!("package: the BPF programs");
    bpf::build(workspace, &bpf_tools, target, Warnings::Shown)?;
    eprintln!("package: energy-trace (release), linked for glibc {FLOOR}");
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([tools.to_owned()].into_iter().chain(env::split_paths(&path)))?;
    let mut cargo = workspace.cargo();
    cargo.args(["zigbuild", "--release", "--locked", "--target", &format!("{}.{FLOOR}", target.triple())]);
    cargo.args(["--package", "energy-trace", "--package", "energy-trace-cupti"]);
    if target != Target::of_machine() {
        let cross = Cross::install(workspace, target)?;
        cross::install_emulator(workspace)?;
        cross.apply_without_linker(workspace, &mut cargo);
    }
    // `energy-trace.debug` tells lines; a build from the source does without, a seventh faster.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    run(cargo.env("PATH", path))?;
    let folder = workspace.target().join(target.triple()).join("release");
    let (program, library) = (folder.join("energy-trace"), folder.join("libenergy_trace_cupti.so"));
    let glibc = floor::check(&[&program, &library])?;
    let program = split_debug_of(target, &program, &folder.join("energy-trace.stripped"))?;
    let library = split_debug_of(target, &library, &folder.join("libenergy_trace_cupti.stripped"))?;
    Ok(Built { debug: program.debug, program: program.stripped, library: library.stripped, glibc })
}
