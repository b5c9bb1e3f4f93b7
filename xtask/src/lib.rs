//! The tasks of energy-trace, run as `cargo xtask TASK`.
//!
//! This file only reads what was typed; one file a task does the work. A task that needs something calls `setup` first, so that
//! `cargo xtask demo` and `cargo xtask test` are whole commands on a machine that has nothing but Rust. What is public is for
//! `tests/benches`. Leaves out what most people do not wait for, programs of their own: the house rules (`tidy/`), benchmarks,
//! other kernels and simulators (`tests/benches`).

mod apt;
mod bpf;
mod cache;
mod checks;
pub mod command;
mod consumers;
pub mod cross;
mod demo;
mod emulated;
mod fleet;
mod fleet_prometheus;
pub mod frameworks;
mod fuzz;
pub mod kernel;
mod linker;
mod oracle;
mod package;
mod page;
mod portable;
pub mod private_apt;
pub mod product;
mod python;
mod rows;
mod serve;
pub mod setup;
pub mod target;
mod toolchain;
mod torch_stubs;
mod verifier;
pub mod workspace;

use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The tasks of energy-trace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building needs; says what before it does, and does nothing where nothing is missing.
    Setup {
        /// Also fetch what the programs in examples/ import: Debian's PyTorch, and TensorFlow and ONNX Runtime in the cache folder.
        #[arg(long)]
        frameworks: bool,
    },
    /// Set up, build the BPF programs and target/release/energy-trace.
    Build {
        /// Build for a machine of this kind, and leave it in target/TARGET/release.
        #[arg(long)]
        target: Option<Target>,
    },
    /// Run cargo for a processor, such as `cross aarch64 test --package energy-trace-unwind --lib`; what it runs, an emulator does. Without words:
    /// the unit tests, but for some that no emulator can run, which are named.
    Cross {
        /// The processor.
        target: Target,
        /// Words of cargo.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Set up, build, and show where a PyTorch training spends its joules.
    Demo {
        /// How long to train, in seconds.
        #[arg(default_value_t = 15)]
        seconds: u32,
    },
    /// Set up and run everything that CI runs; needs root, because BPF programs are loaded.
    Test(checks::Options),
    /// Start simulated power hardware and say how to point energy-trace at it: `powercap` or `gpu`.
    Sim(Words),
    /// Compare the unwind rows of libraries with what gimli says, and print the figures.
    CheckRows {
        /// ELF files; without any, the libc, the interpreters and the frameworks of this machine.
        files: Vec<PathBuf>,
    },
    /// Measure, beside other tools where there are any; prints tables and asserts nothing.
    Bench(Words),
    /// Boot other kernels under an emulator, record there with the same BPF programs, and check the stacks. Needs no root.
    Kernels(Words),
    /// Write anew how many instructions the running kernel verifies for each BPF program; needs root.
    Verifier,
    /// Sample every CPython of this machine and compare its stacks with its own word; needs root, prints a table.
    Oracle(oracle::Options),
    /// Compare the line tables of the standard library of every CPython of this machine with its own word, and print the figures.
    CheckLines,
    /// Open each export with a program that people open it with, and compare its energy with the report's; fetches these programs.
    Consumers(consumers::Options),
    /// Ask the tables of a fleet by real engines and an object store, and record ranks of mpirun; fetches these.
    Fleet(fleet::Options),
    /// Have a real Prometheus scrape the agent on simulated power, and ask it for the sum rule; fetches Debian's; needs root.
    FleetPrometheus,
    /// Build the fuzz targets and run each for a while; fetches `cargo fuzz` where it is missing.
    Fuzz(fuzz::Options),
    /// Open the HTML report in Chromium and check what it shows; records a program for some seconds unless a recording is named.
    Page(page::Options),
    /// Try the Python package on every CPython of this machine, its magic in Jupyter, its plugin in pytest; needs root, fetches both.
    Python(python::Options),
    /// Record a language model's server and trainings with their tokens, ranges and steps, and compare; needs root, fetches PyTorch.
    Serve(serve::Options),
    /// Make what people install: tar.gz, deb, rpm, a wheel for pip, checksums and a list of parts, in target/package.
    Package(package::Options),
    /// Check the house rules that neither rustc nor clippy knows.
    Tidy,
}

/// What another program is told; `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Words {
    /// What that program takes; `--help` shows it.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Does what was typed.
pub fn main() -> ExitCode {
    status(perform(Cli::parse().task))
}

/// How a task's program ends; says why it failed.
pub fn status(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}"); // no backtrace, whatever RUST_BACKTRACE says: the text is for the person who typed
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup { frameworks } => setup::task(&workspace, frameworks),
        Task::Build { target } => product::task(&workspace, target),
        Task::Cross { target, words } => cross::task(&workspace, target, &words),
        Task::Demo { seconds } => demo::task(&workspace, seconds),
        Task::Test(options) => checks::task(&workspace, &options),
        Task::Sim(Words { words }) => outside(&workspace, &["sim"], &words),
        Task::CheckRows { files } => rows::task(&workspace, &files),
        Task::Bench(Words { words }) => outside(&workspace, &[], &words),
        Task::Kernels(Words { words }) => outside(&workspace, &["kernels"], &words),
        Task::Verifier => verifier::task(&workspace),
        Task::Oracle(options) => oracle::task(&workspace, &options),
        Task::CheckLines => oracle::check_lines(&workspace),
        Task::Consumers(options) => consumers::task(&workspace, &options),
        Task::Fleet(options) => fleet::task(&workspace, &options),
        Task::FleetPrometheus => fleet_prometheus::task(&workspace),
        Task::Fuzz(options) => fuzz::task(&workspace, &options),
        Task::Page(options) => page::task(&workspace, &options),
        Task::Python(options) => python::task(&workspace, &options),
        Task::Serve(options) => serve::task(&workspace, &options),
        Task::Package(options) => package::task(&workspace, &options),
        Task::Tidy => tidy(&workspace),
    }
}

/// Becomes the program of `tests/benches`, so that Ctrl-C and the exit status are its own.
fn outside(workspace: &Workspace, first: &[&str], words: &[OsString]) -> Result<()> {
    let mut cargo = workspace.cargo();
    // A folder that is named is the caller's.
    cargo
        .current_dir(std::env::current_dir()?)
        .arg("run")
        .arg("--manifest-path")
        .arg(workspace.root().join("Cargo.toml"));
    cargo.args(["--quiet", "--package", "energy-trace-benches", "--"]).args(first).args(words);
    Err(cargo.exec()).context("cannot start cargo")
}

/// The house rules, by a program of their own.
fn tidy(workspace: &Workspace) -> Result<()> {
    command::run(workspace.cargo().args(["run", "--quiet", "--package", "energy-trace-tidy"]))
}
