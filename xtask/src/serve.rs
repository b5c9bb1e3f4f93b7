//! `cargo xtask serve`: a language model behind HTTP and trainings, with their tokens, ranges and steps counted while they are recorded.
//!
//! PyTorch and Transformers come from PyPI into the cache folder; weights are random. What is checked is `tests/serve`. Leaves out GPUs
//! (`tests/gpu_check`). Not part of `cargo xtask test`: what it fetches is gigabytes.

use crate::command::{read_output, run};
use crate::frameworks;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that was looked at.
const TRANSFORMERS: [&str; 1] = ["transformers==5.24.0"];

/// What was typed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the server is asked, in seconds.
    #[arg(default_value_t = 60)]
    seconds: u32,
    /// The energy-trace to use; target/release/energy-trace if not given.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Records them and compares.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = options.program.clone().unwrap_or_else(|| workspace.binary());
    let program = fs::canonicalize(program).context("cannot find energy-trace")?;
    let torch = site(&frameworks::install_newest_torch(workspace)?)?;
    let python = frameworks::environment_with(workspace, "transformers", &TRANSFORMERS)?;
    let path = std::env::join_paths([workspace.root().join("tracer/python"), torch])?;
    let folder = tempfile::tempdir()?;
    let mut check = Command::new(python);
    check.arg(workspace.root().join("tests/serve")).arg(program).arg(folder.path());
    run(check.arg(options.seconds.to_string()).env("SERVE_PATH", path))
}

/// Where an interpreter has its packages.
fn site(python: &Path) -> Result<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    Ok(PathBuf::from(read_output(Command::new(python).args(["-c", ask]))?.trim()))
}
