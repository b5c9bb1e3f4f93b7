//! `cargo xtask serve`: a language model behind HTTP and trainings, with their tokens, ranges and steps counted while they are recorded.
//!
//! PyTorch and Transformers come from PyPI into the cache folder, llama.cpp from Debian; weights are random. What is checked is `tests/serve`. Leaves out GPUs
//! (`tests/gpu_check`). Not part of `cargo xtask test`: what it fetches is gigabytes.

use crate::command::{read_output, run};
use crate::frameworks;
use crate::private_apt::{PrivateApt, SID};
use crate::product;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that were looked at; gguf writes what llama.cpp reads.
const TRANSFORMERS: [&str; 2] = ["transformers==5.24.0", "gguf==0.19.0"];

/// What was typed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the server is asked, in seconds.
    #[arg(default_value_t = 60)]
    seconds: u32,
    /// The energy-trace to use; target/release/energy-trace, which is built, if not given.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Records them and compares.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = product::given_or_built(workspace, options.program.as_deref())?;
    let torch = site(&frameworks::install_newest_torch(workspace)?)?;
    let python = frameworks::environment_with(workspace, "transformers", &TRANSFORMERS)?;
    let path = std::env::join_paths([workspace.root().join("tracer/python"), torch])?;
    let folder = tempfile::tempdir()?;
    let mut check = Command::new(python);
    check.arg(workspace.root().join("tests/serve")).arg(program).arg(folder.path());
    check.env("SERVE_PATH", path).env("LLAMA_ROOT", llama(workspace)?).env("PYTHONUNBUFFERED", "1");
    run(check.arg(options.seconds.to_string()))
}

/// Debian's newest llama.cpp with all that it needs, in a folder of its own.
fn llama(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.tools().join("llama");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (root, log) = (folder.join("root"), workspace.log());
    let apt = PrivateApt { folder: &folder, target: Target::of_machine(), sources: SID, log: &log };
    apt.unpack_with_dependencies(&["llama.cpp-tools"], &root)?;
    Ok(root)
}

/// Where an interpreter has its packages.
fn site(python: &Path) -> Result<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    Ok(PathBuf::from(read_output(Command::new(python).args(["-c", ask]))?.trim()))
}
