//! What the programs in `examples/` import: Debian's PyTorch for the system's Python, the rest in virtual environments, with the newest
//! PyTorch too, which the benchmarks measure (its stand-ins for NVIDIA's libraries: `torch_stubs.rs`).
//!
//! The versions are pinned to those that the examples were run with.

use crate::apt::{self, Package, package};
use crate::command::{find, read_output, run_logged};
use crate::torch_stubs;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that Debian's `python3-torch` belongs to.
pub const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// One virtual environment.
struct Environment<'a> {
    folder: &'a str,
    /// Installed without what they ask for: gigabytes that these programs do not use.
    alone: &'a [&'a str],
    requirements: &'a [&'a str],
    examples: &'a [&'a str],
}

const ENVIRONMENTS: [Environment<'static>; 4] = [
    Environment {
        folder: "tensorflow",
        alone: &[],
        requirements: &["tensorflow-cpu==2.21.0"],
        examples: &["tf1_session.py", "keras_fit.py"],
    },
    Environment {
        folder: "onnx",
        alone: &[],
        requirements: &["onnxruntime==1.31.1", "onnx==1.23.2"],
        examples: &["onnx_inference.py"],
    },
    NEWEST_TORCH,
    Environment {
        folder: "jax",
        alone: &[],
        requirements: &["jax[cpu]==0.10.2"],
        examples: &["jax_training.py"],
    },
];

/// PyPI's PyTorch.
const NEWEST_TORCH: Environment<'static> = Environment {
    folder: TORCH,
    alone: &["torch==2.15.0"],
    requirements: &["filelock", "fsspec", "jinja2", "networkx", "numpy", "sympy", "typing-extensions"],
    examples: &["torch_training.py", "torch_recommender.py", "torch_dataloader.py"],
};
const TORCH: &str = "torch";

/// A profiler to compare with, from PyPI.
const PY_SPY: Environment<'static> =
    Environment { folder: "py-spy", alone: &[], requirements: &["py-spy==0.4.3"], examples: &[] };

/// A compiler of Python, from PyPI: a slow test records what it makes.
const NUITKA: Environment<'static> =
    Environment { folder: "nuitka", alone: &[], requirements: &["nuitka==4.3.3"], examples: &[] };

/// What marks ranges in Python, from PyPI.
const NVTX: Environment<'static> =
    Environment { folder: "nvtx", alone: &[], requirements: &["nvtx==0.2.17"], examples: &[] };

/// An energy meter to compare with, from PyPI, and another one, from crates.io.
const CODECARBON: Environment<'static> =
    Environment { folder: "codecarbon", alone: &[], requirements: &["codecarbon==3.3.2"], examples: &[] };
const SCAPHANDRE: &str = "1.0.0";

/// The Python versions (3.x) that every pinned package has wheels for.
const WHEELS_FOR: std::ops::RangeInclusive<u32> = 11..=13;

/// Debian's PyTorch, where the system's Python does not import one.
pub(crate) fn missing_torch() -> Vec<Package> {
    if imports(Path::new(SYSTEM_PYTHON), &["torch", "numpy"]) {
        return vec![];
    }
    vec![
        package("python3-torch", "PyTorch for the system's Python, for the example trainings"),
        package("python3-numpy", "PyTorch needs it"),
    ]
}

/// Installs Debian's PyTorch where it is missing.
pub fn install_torch(workspace: &Workspace) -> Result<()> {
    apt::install(&missing_torch(), &workspace.log())
}

/// Whether `python` imports all of `modules`.
pub fn imports(python: &Path, modules: &[&str]) -> bool {
    read_output(Command::new(python).arg("-c").arg(format!("import {}", modules.join(", ")))).is_ok()
}

/// Makes the virtual environments that are not here yet, and says how to run each example.
pub fn install(workspace: &Workspace) -> Result<()> {
    make_environments(workspace)?;
    let debian = ["torch_training.py", "torch_inference.py"];
    let mut lines: Vec<_> = debian.map(|example| (PathBuf::from(SYSTEM_PYTHON), example)).into();
    for environment in &ENVIRONMENTS {
        let folder = workspace.venvs().join(environment.folder);
        lines.extend(environment.examples.iter().map(|&example| (folder.join("bin/python"), example)));
    }
    eprintln!("\nThe examples, 20 seconds each (leave sudo and energy-trace out to run one alone):");
    for (python, example) in lines {
        eprintln!("    sudo {} -- {} examples/{example} 20", workspace.binary().display(), python.display());
    }
    Ok(())
}

/// Makes the virtual environments of the examples that are not here yet.
pub fn make_environments(workspace: &Workspace) -> Result<()> {
    ENVIRONMENTS.iter().try_for_each(|environment| ensure(workspace, environment))
}

/// Installs the profilers that the benchmarks compare with; gives py-spy, which is not on the `PATH`.
pub fn install_peers(workspace: &Workspace) -> Result<PathBuf> {
    let packages = [
        package("linux-perf", "to compare with: perf"),
        package("libc6-dbg", "has perf name the functions in which threads begin"),
        package("bpftrace", "to compare with: bpftrace"),
    ];
    apt::install(&packages, &workspace.log())?;
    ensure(workspace, &PY_SPY)?;
    Ok(workspace.venvs().join(PY_SPY.folder).join("bin/py-spy"))
}

/// Installs Nuitka, and the headers that its C code includes.
pub fn install_nuitka(workspace: &Workspace) -> Result<()> {
    apt::install(&[package("python3-dev", "Nuitka compiles with its headers")], &workspace.log())?;
    ensure(workspace, &NUITKA)
}

/// Installs what marks ranges in Python.
pub fn install_nvtx(workspace: &Workspace) -> Result<()> {
    ensure(workspace, &NVTX)
}

/// Installs PyPI's PyTorch; the Python that has it.
pub fn install_newest_torch(workspace: &Workspace) -> Result<PathBuf> {
    ensure(workspace, &NEWEST_TORCH)?;
    Ok(workspace.venvs().join(TORCH).join("bin/python"))
}

/// Installs the energy meters that the benchmarks compare with: a Python with CodeCarbon, and Scaphandre (minutes: it is compiled).
pub fn install_meters(workspace: &Workspace) -> Result<(PathBuf, PathBuf)> {
    ensure(workspace, &CODECARBON)?;
    let scaphandre = install_scaphandre(workspace)?;
    Ok((workspace.venvs().join(CODECARBON.folder).join("bin/python"), scaphandre))
}

/// The same of Scaphandre alone.
pub fn install_scaphandre(workspace: &Workspace) -> Result<PathBuf> {
    let scaphandre = workspace.tools().join("bin/scaphandre");
    if !scaphandre.is_file() {
        eprintln!(
            "setup: building Scaphandre {SCAPHANDRE} from crates.io into {}",
            workspace.tools().display()
        );
        let options =
            ["install", "scaphandre", "--version", SCAPHANDRE, "--no-default-features", "--features", "json"];
        run_logged(workspace.cargo().args(options).arg("--root").arg(workspace.tools()), &workspace.log())?;
    }
    Ok(scaphandre)
}

/// The Python of an environment with these packages, which is made where it is not there yet.
pub(crate) fn environment_with(workspace: &Workspace, folder: &str, packages: &[&str]) -> Result<PathBuf> {
    ensure(workspace, &Environment { folder, alone: &[], requirements: packages, examples: &[] })?;
    Ok(workspace.venvs().join(folder).join("bin/python"))
}

fn ensure(workspace: &Workspace, environment: &Environment<'_>) -> Result<()> {
    let folder = workspace.venvs().join(environment.folder);
    match is_complete(&folder, environment) {
        true => Ok(()),
        false => make(&folder, environment, &workspace.log()),
    }
}

/// The Python whose environment runs an example of the list above.
pub fn python_of(workspace: &Workspace, example: &str) -> Result<PathBuf> {
    let environment = ENVIRONMENTS
        .iter()
        .find(|environment| environment.examples.contains(&example))
        .with_context(|| format!("no virtual environment is meant for examples/{example}"))?;
    Ok(workspace.venvs().join(environment.folder).join("bin/python"))
}

/// A finished environment holds a file with its requirements; one that was cut short, or that an older project made, does not.
fn is_complete(folder: &Path, environment: &Environment<'_>) -> bool {
    fs::read_to_string(folder.join("requirements.txt"))
        .is_ok_and(|text| text == requirements_text(environment))
}

fn requirements_text(environment: &Environment<'_>) -> String {
    environment.alone.iter().chain(environment.requirements).map(|line| format!("{line}\n")).collect()
}

fn make(folder: &Path, environment: &Environment<'_>, log: &Path) -> Result<()> {
    let python = find_python(log)?;
    let wanted = requirements_text(environment).trim_end().replace('\n', " ");
    eprintln!("setup: installing {wanted} from PyPI into {} with {}", folder.display(), python.display());
    run_logged(Command::new(&python).args(["-m", "venv", "--clear"]).arg(folder), log)?;
    let pip =
        ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-input", "--disable-pip-version-check"];
    let install = |options: &[&str], names: &[&str]| {
        run_logged(Command::new(folder.join("bin/python")).args(pip).args(options).args(names), log)
            .with_context(|| format!("PyPI gave no {wanted}; is there a network?"))
    };
    if !environment.alone.is_empty() {
        install(&["--no-deps"], environment.alone)?;
    }
    install(&[], environment.requirements)?;
    if environment.folder == TORCH {
        torch_stubs::make(folder, log)?;
    }
    fs::write(folder.join("requirements.txt"), requirements_text(environment))
        .context("cannot finish the virtual environment")
}

/// A Python that the pinned packages have wheels for and that can make virtual environments. The system's gets `python3-venv`.
fn find_python(log: &Path) -> Result<PathBuf> {
    let others = WHEELS_FOR.filter_map(|minor| find(&format!("python3.{minor}")));
    let candidates = [PathBuf::from(SYSTEM_PYTHON)].into_iter().chain(others).chain(find("python3"));
    let fitting: Vec<PathBuf> = candidates
        .filter(|python| minor_version(python).is_some_and(|minor| WHEELS_FOR.contains(&minor)))
        .collect();
    if let Some(python) = fitting.iter().find(|python| imports(python, &["venv", "ensurepip"])) {
        return Ok(python.clone());
    }
    apt::install(
        &[package("python3", "runs the examples"), package("python3-venv", "makes virtual environments")],
        log,
    )?;
    Some(PathBuf::from(SYSTEM_PYTHON))
        .filter(|python| minor_version(python).is_some_and(|minor| WHEELS_FOR.contains(&minor)))
        .with_context(|| {
            format!(
                "the examples need a Python from 3.{} to 3.{} with venv on the PATH",
                WHEELS_FOR.start(),
                WHEELS_FOR.end()
            )
        })
}

/// The x of the Python 3.x that `python` is; none for one that does not start (a pyenv shim without a version).
fn minor_version(python: &Path) -> Option<u32> {
    let text =
        read_output(Command::new(python).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))
            .ok()?;
    text.strip_prefix("3.")?.parse().ok()
}
