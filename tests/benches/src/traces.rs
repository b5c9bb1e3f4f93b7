//! Recordings of real programs at a high rate, which trace-driven worlds take for the truth. They lie in `target/traces`, made once.
//!
//! Leaves out what is made of them (`tests/scenarios/traced`).

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::run;
use xtask::frameworks;
use xtask::product;
use xtask::setup::{self, Purpose};
use xtask::workspace::Workspace;

/// Samples per CPU and second. At 4,999 up to 25 % were lost on two virtual CPUs beside other work, at half of that 3.1 %.
const HZ: &str = "2499";
/// How long each program runs.
const SECONDS: &str = "30";

/// A program that is traced.
struct Program {
    name: &'static str,
    runs: Runs,
}

/// What starts it, before the number of seconds.
#[derive(Clone, Copy)]
enum Runs {
    /// A file of `examples/` by Debian's Python.
    Debian(&'static str),
    /// A file of `examples/` in the environment that it needs.
    Environment(&'static str),
    /// A file of `tests/workloads` by Debian's Python.
    Python(&'static str),
    /// A file of `tests/workloads` by the shell.
    Shell(&'static str),
}

const PROGRAMS: [Program; 7] = [
    Program { name: "torch", runs: Runs::Debian("torch_training.py") },
    Program { name: "tf1", runs: Runs::Environment("tf1_session.py") },
    Program { name: "keras", runs: Runs::Environment("keras_fit.py") },
    Program { name: "jax", runs: Runs::Environment("jax_training.py") },
    Program { name: "onnx", runs: Runs::Environment("onnx_inference.py") },
    Program { name: "pipeline", runs: Runs::Python("pipeline.py") },
    Program { name: "compiler", runs: Runs::Shell("compile.sh") },
];

/// The folder of the traces; records those that are missing.
pub(crate) fn ensure(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target().join("traces");
    let missing: Vec<&Program> =
        PROGRAMS.iter().filter(|program| !file(&folder, program).is_file()).collect();
    if missing.is_empty() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    setup::run(workspace, Purpose::Build)?;
    frameworks::install_torch(workspace)?;
    frameworks::make_environments(workspace)?;
    product::build(workspace, Purpose::Build)?;
    missing.into_iter().try_for_each(|program| record(workspace, &folder, program))?;
    Ok(folder)
}

fn file(folder: &Path, program: &Program) -> PathBuf {
    folder.join(program.name).with_extension("data")
}

/// Under another name until it is whole.
fn record(workspace: &Workspace, folder: &Path, program: &Program) -> Result<()> {
    eprintln!("traces: {} for {SECONDS} s at {HZ} Hz", program.name);
    let unfinished = folder.join(program.name).with_extension("unfinished");
    let mut command = Command::new(workspace.binary());
    command.args(["record", "--no-svg", "--power", "none", "-F", HZ, "-o"]).arg(&unfinished).arg("--");
    command.args(words(workspace, program.runs)?).arg(SECONDS);
    for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(variable);
    }
    run(command.env("OMP_WAIT_POLICY", "passive"))?;
    fs::rename(&unfinished, file(folder, program)).context("cannot keep the trace")
}

fn words(workspace: &Workspace, runs: Runs) -> Result<[PathBuf; 2]> {
    let example = |name| workspace.root().join("examples").join(name);
    let script = |name| workspace.root().join("tests/workloads").join(name);
    Ok(match runs {
        Runs::Debian(name) => [frameworks::SYSTEM_PYTHON.into(), example(name)],
        Runs::Environment(name) => [frameworks::python_of(workspace, name)?, example(name)],
        Runs::Python(name) => [frameworks::SYSTEM_PYTHON.into(), script(name)],
        Runs::Shell(name) => ["/bin/sh".into(), script(name)],
    })
}
