//! The main job on a real program: a small PyTorch training under energy-trace, by the release binary where there is one, else by what is built
//! soonest.

use crate::command::{find, is_root};
use crate::frameworks::SYSTEM_PYTHON;
use crate::product;
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// OpenMP threads that wait by spinning would be most of the picture on a shared machine.
const OPENMP_SLEEPS: &str = "OMP_WAIT_POLICY=passive";

/// The product, with PyTorch. A first look should not wait for an optimiser; a release that was built before is brought up to date.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    if workspace.binary().exists() {
        product::build(workspace, Purpose::Demo)?;
        return Ok(workspace.binary());
    }
    product::build_quickly(workspace, Purpose::Demo)?;
    Ok(workspace.quick_binary())
}

/// `cargo xtask demo`: the results lie in the folder where it is run.
pub(crate) fn task(workspace: &Workspace, seconds: u32) -> Result<()> {
    let binary = build(workspace)?;
    let example = workspace.root().join("examples/torch_training.py");
    let mut command = match is_root() {
        true => Command::new("env"),
        false => {
            let mut sudo = Command::new(
                find("sudo").context("recording needs root, and there is no sudo here: run this as root")?,
            );
            sudo.arg("env");
            sudo
        }
    };
    command
        .arg(OPENMP_SLEEPS)
        .arg(&binary)
        .arg("--jit-names")
        .arg("--")
        .arg(SYSTEM_PYTHON)
        .arg(example)
        .arg(seconds.to_string());
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("\ndemo: {} {}\n", command.get_program().display(), words.join(" "));
    let status = command.status().context("cannot start energy-trace")?;
    if !status.success() {
        bail!("the demo ended with {status}");
    }
    eprintln!(
        "\nNext:\n    open energy-trace.svg in a browser: the wider a frame, the more joules\n    {0} report energy-trace.data --by api\n    \
         sudo {0} -- python3 YOUR_PROGRAM.py",
        binary.display()
    );
    if binary != workspace.binary() {
        eprintln!(
            "    cargo xtask build: the same, optimised; a recording then takes half the CPU time of its own"
        );
    }
    Ok(())
}
