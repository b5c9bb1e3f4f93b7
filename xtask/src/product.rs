//! Building the product for use, and its tests that are tasks.

use crate::bpf::{self, Warnings};
use crate::command::{find, run};
use crate::cross::Cross;
use crate::setup::{self, Purpose};
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use object::Object as _;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask build`.
pub fn task(workspace: &Workspace, target: Option<Target>) -> Result<()> {
    let target = target.unwrap_or_else(Target::of_machine);
    build_for(workspace, target)?;
    let binary = workspace.binary_of(target);
    let of_machine = target == Target::of_machine();
    let there = if of_machine { "To use it" } else { "To use it on such a machine" };
    eprintln!("\n{} is ready. {there}:\n    sudo {0} -- python3 train.py", binary.display());
    Ok(())
}

/// The same for a processor that may be another than this machine's.
pub fn build_for(workspace: &Workspace, target: Target) -> Result<()> {
    if target == Target::of_machine() {
        return build(workspace, Purpose::Build);
    }
    let cross = Cross::install(workspace, target)?;
    build_probes_for(workspace, target)?;
    eprintln!("build: energy-trace (release) for {}", target.triple());
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", "energy-trace", "--package", "energy-trace-cupti"]);
    cross.apply(workspace, &mut cargo);
    run(&mut cargo)
}

/// Sets up for `purpose`, builds the BPF programs, the release binary and the library that it injects.
pub fn build(workspace: &Workspace, purpose: Purpose) -> Result<()> {
    compile(workspace, purpose, Compiled::Release)?;
    set_debug_aside(&workspace.binary())
}

/// The same without optimisation where it is not felt in a recording of seconds.
pub fn build_quickly(workspace: &Workspace, purpose: Purpose) -> Result<()> {
    compile(workspace, purpose, Compiled::Debug)
}

/// Nobody changes a line of it, so there is nothing to keep for the next build.
const NOT_INCREMENTAL: (&str, &str) = ("CARGO_INCREMENTAL", "0");

/// Attribution without optimisation: it takes no time of a few seconds' recording, and is built in a third of the time.
const PLAIN_ATTRIBUTION: [&str; 8] = [
    "--config",
    "profile.dev.package.energy-trace-attribution.opt-level=0",
    "--config",
    "profile.dev.package.energy-trace-counters.opt-level=0",
    "--config",
    "profile.dev.package.energy-trace-cpu-time.opt-level=0",
    "--config",
    "profile.dev.package.energy-trace-delegation.opt-level=0",
];
/// The same of statistics.
const PLAIN_STATISTICS: [&str; 2] = ["--config", "profile.dev.package.energy-trace-statistics.opt-level=0"];

fn compile(workspace: &Workspace, purpose: Purpose, compiled: Compiled) -> Result<()> {
    let optimised = compiled == Compiled::Release;
    let how = if optimised { "release" } else { "not optimised" };
    eprintln!("build: the BPF programs, energy-trace ({how}) and the library for --gpu kernel");
    let product = || {
        let mut cargo = workspace.cargo();
        cargo.args(["build", "--package", "energy-trace", "--package", "energy-trace-cupti"]);
        match compiled {
            Compiled::Release => cargo.arg("--release"),
            Compiled::Debug => cargo.envs([NOT_INCREMENTAL]).args(PLAIN_ATTRIBUTION).args(PLAIN_STATISTICS),
        };
        cargo
    };
    bpf::build_beside(workspace, purpose, Warnings::Shown, &mut product())?;
    run(&mut product())
}

/// Moves what a debugger needs out of a binary into `NAME.debug` beside it, by binutils; without those the binary stays large.
fn set_debug_aside(binary: &Path) -> Result<()> {
    let bytes = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let has_names = object::File::parse(&*bytes)?.section_by_name(".symtab").is_some();
    if !has_names || find("objcopy").is_none() {
        return Ok(());
    }
    let split = split_debug(binary, &binary.with_extension("small"))?;
    // A new file in its place: cargo keeps the other name of the old one.
    fs::rename(&split.stripped, binary).with_context(|| format!("cannot replace {}", binary.display()))
}

/// A binary in two.
#[derive(Debug)]
pub struct Split {
    /// What runs.
    pub stripped: PathBuf,
    /// What a debugger needs.
    pub debug: PathBuf,
}

/// Writes `binary` without symbols to `stripped`, and what a debugger needs to `NAME.debug` beside it; it stays itself.
pub fn split_debug(binary: &Path, stripped: &Path) -> Result<Split> {
    split_debug_of(Target::of_machine(), binary, stripped)
}

/// The same of a binary for a processor.
pub(crate) fn split_debug_of(target: Target, binary: &Path, stripped: &Path) -> Result<Split> {
    let objcopy = find(&target.tool("objcopy")).context("there is no objcopy: install binutils")?;
    let debug = binary.with_extension("debug");
    run(Command::new(&objcopy).arg("--only-keep-debug").args([binary, &debug]))?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run(Command::new(&objcopy).arg("--strip-all").arg(link).args([binary, stripped]))?;
    Ok(Split { stripped: stripped.to_owned(), debug })
}

/// Sets up for `purpose` and builds the BPF programs, without which the product cannot be compiled.
pub fn build_probes(workspace: &Workspace, purpose: Purpose) -> Result<()> {
    let tools = setup::run(workspace, purpose)?;
    eprintln!("build: the BPF programs");
    bpf::build(workspace, &tools, Target::of_machine(), Warnings::Shown)
}

/// The BPF programs for a processor.
pub fn build_probes_for(workspace: &Workspace, target: Target) -> Result<()> {
    let tools = setup::run(workspace, Purpose::Build)?;
    eprintln!("build: the BPF programs for {}", target.arch());
    bpf::build(workspace, &tools, target, Warnings::Shown)
}

/// The program that was named, or that of this tree, built.
pub fn given_or_built(workspace: &Workspace, given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(given) => fs::canonicalize(given).with_context(|| format!("cannot find {}", given.display())),
        None => {
            build(workspace, Purpose::Build)?;
            Ok(workspace.binary())
        }
    }
}

/// How a test is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// As tests are.
    Debug,
    /// For speed.
    Release,
}

/// Runs one test that `cargo test` leaves out: `test` of the program `tests/BINARY`. The caller adds what it is told by its environment.
pub fn ignored_test(workspace: &Workspace, compiled: Compiled, binary: &str, test: &str) -> Result<Command> {
    let mut cargo = test_program(workspace, compiled, binary)?;
    cargo.args(["--", "--ignored", "--exact", "--nocapture", test]);
    Ok(cargo)
}

/// Builds the product, and says how the tests of `tests/BINARY` are run on it.
pub fn test_program(workspace: &Workspace, compiled: Compiled, binary: &str) -> Result<Command> {
    let of_both = |verb: &str| {
        let mut cargo = workspace.cargo();
        cargo.args([verb, "--quiet", "--package", "energy-trace", "--package", "test-programs"]);
        if compiled == Compiled::Release {
            cargo.arg("--release");
        }
        cargo
    };
    run(of_both("build").arg("--bins"))?;
    let mut test = of_both("test");
    test.args(["--test", binary]);
    Ok(test)
}

/// Builds the simulated counters; where they are.
pub fn powercap_sim(workspace: &Workspace) -> Result<PathBuf> {
    let build = ["build", "--quiet", "--package", "energy-trace-tests", "--bin", "powercap-sim"];
    run(workspace.cargo().args(build))?;
    Ok(workspace.target().join("debug/powercap-sim"))
}

/// Runs a measurement of `tests/benches`, built for speed. The caller adds what it is told.
pub fn measurement(workspace: &Workspace, name: &str) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["bench", "--quiet", "--package", "energy-trace", "--bench", name, "--"]);
    cargo
}
