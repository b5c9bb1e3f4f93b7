//! Installing what the other tasks need: idempotent, and announced before anything changes.
//!
//! Packages come from Debian, tools that Debian lacks are built into the cache folder (`workspace.rs` says where). What cannot be
//! installed ends in an error that holds the commands to type.

use crate::apt::{self, Package, package};
use crate::command::{find, read_output, run_logged};
use crate::toolchain::{self, Compiler, Road};
use crate::workspace::Workspace;
use crate::{emulated, frameworks, linker};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a task needs beyond building.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Only the product.
    Build,
    /// The product, and what the live tests run.
    Test,
    /// The product, and PyTorch for what the demo records.
    Demo,
}

/// The tools of the BPF build, all of them installed.
#[derive(Debug)]
pub struct Tools {
    /// Has `core` for BPF.
    pub(crate) compiler: Compiler,
    /// bpf-linker.
    pub(crate) linker: PathBuf,
}

/// The LLVM of Debian's compiler before it is installed: what `rustc-web` 1.96 in Debian 12 is built with.
const DEBIAN_LLVM: u32 = 22;

/// `cargo xtask setup`.
pub fn task(workspace: &Workspace, with_frameworks: bool) -> Result<()> {
    run(workspace, Purpose::Build)?;
    if with_frameworks {
        frameworks::install_torch(workspace)?;
        frameworks::install(workspace)?;
    }
    Ok(())
}

/// Installs what `purpose` needs and is not here.
pub fn run(workspace: &Workspace, purpose: Purpose) -> Result<Tools> {
    let tools = install_tools(workspace)?;
    install_for(workspace, purpose)?;
    Ok(tools)
}

/// Installs what `purpose` needs beyond building, as far as it is not here.
pub fn install_for(workspace: &Workspace, purpose: Purpose) -> Result<()> {
    apt::install(&purpose_packages(purpose), &workspace.log())
}

/// Installs what building needs and is not here.
pub fn install_tools(workspace: &Workspace) -> Result<Tools> {
    let log = workspace.log();
    let road = toolchain::find_road(&log)?;
    apt::install(&wanted(workspace, &road), &log)?;
    if road == Road::AddNightly {
        let words = ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "rust-src"];
        eprintln!("setup: rustup {}", words.join(" "));
        run_logged(Command::new("rustup").args(words), &log)
            .context("rustup could not fetch a nightly; is there a network?")?;
    }
    let compiler = Compiler::on(&road)?;
    let linker = ensure_linker(workspace, compiler.llvm())?;
    eprintln!(
        "setup: tools of the BPF programs are ready: {} (LLVM {}), bpf-linker {}",
        compiler.version(),
        compiler.llvm(),
        linker::VERSION
    );
    Ok(Tools { compiler, linker })
}

/// The packages that building asks for on `road`, installed or not.
fn wanted(workspace: &Workspace, road: &Road) -> Vec<Package> {
    let mut wanted = Vec::new();
    if find("cc").is_none() {
        wanted.push(package("gcc", "links Rust programs"));
        wanted.push(package("libc6-dev", "links Rust programs"));
    }
    if *road == Road::Debian && !toolchain::has_debian_compiler() {
        let [rustc, core] = toolchain::DEBIAN_PACKAGES;
        wanted.push(package(rustc, "a compiler whose core library exists for BPF"));
        wanted.push(package(core, "that core library"));
    }
    let llvm = match road {
        Road::Debian if !toolchain::has_debian_compiler() => Some(DEBIAN_LLVM),
        Road::Debian | Road::Nightly(_) => Compiler::on(road).ok().map(|compiler| compiler.llvm()),
        Road::AddNightly => None, // known only once it is here; `ensure_linker` asks then
    };
    if let Some(llvm) = llvm.filter(|&llvm| linker::find_linker(workspace, llvm).is_none()) {
        wanted.extend(linker::packages(llvm));
    }
    wanted
}

fn purpose_packages(purpose: Purpose) -> Vec<Package> {
    match purpose {
        Purpose::Build => Vec::new(),
        Purpose::Test => test_packages(),
        Purpose::Demo => frameworks::missing_torch(),
    }
}

fn test_packages() -> Vec<Package> {
    let programs = [
        ("fusermount3", "fuse3", "mounts the simulated powercap tree"),
        ("sudo", "sudo", "tests start commands as another user through it"),
        (frameworks::SYSTEM_PYTHON, "python3", "the tests sample a real Python"),
        ("setcap", "libcap2-bin", "a test gives a program capabilities"),
        ("javac", "default-jdk-headless", "a test records Java, whose chain of calls it knows"),
        ("node", "nodejs", "a test records Node, whose chain of calls it knows"),
        ("musl-gcc", "musl-tools", "a test records programs of musl"),
        ("pypy3", "pypy3", "a test records a Python that is not CPython"),
    ];
    let missing = programs.into_iter().filter(|(program, ..)| find(program).is_none());
    let mut packages: Vec<_> = missing.map(|(_, name, why)| package(name, why)).collect();
    if !frameworks::imports(Path::new(frameworks::SYSTEM_PYTHON), &["jsonschema"]) {
        packages.push(package("python3-jsonschema", "checks that reports are what their schema says"));
    }
    if !frameworks::imports(Path::new(frameworks::SYSTEM_PYTHON), &["gevent"]) {
        packages.push(package("python3-gevent", "a test records greenlets"));
    }
    packages.extend(emulated::packages());
    packages
}

fn ensure_linker(workspace: &Workspace, llvm: u32) -> Result<PathBuf> {
    if let Some(linker) = linker::find_linker(workspace, llvm) {
        return Ok(linker);
    }
    apt::install(&linker::packages(llvm), &workspace.log())?;
    eprintln!(
        "setup: building bpf-linker {} with LLVM {llvm} into {} (up to a minute)",
        linker::VERSION,
        workspace.tools().display()
    );
    linker::install(workspace, llvm)
}

/// rustfmt and clippy, which a minimal rustup profile leaves out.
pub fn ensure_components(workspace: &Workspace) -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if read_output(workspace.cargo().args([subcommand, "--version"])).is_ok() {
            continue;
        }
        eprintln!("setup: rustup component add {component}");
        run_logged(Command::new("rustup").args(["component", "add", component]), &workspace.log())
            .with_context(|| {
                format!("`cargo {subcommand}` is missing; install {component} for this Rust toolchain")
            })?;
    }
    Ok(())
}
