//! The tasks of energy-trace, run as `cargo xtask TASK`.
//!
//! This file only reads what was typed; one file a task does the work. A task that needs something calls `setup` first, so that
//! `cargo xtask demo` and `cargo xtask test` are whole commands on a machine that has nothing but Rust.

mod apt;
mod bench;
mod bpf;
mod cache;
mod chain;
mod checks;
mod command;
mod consumers;
mod demo;
mod frameworks;
mod fuzz;
mod kernel;
mod kernels;
mod linker;
mod oracle;
mod package;
mod page;
mod portable;
mod product;
mod rows;
mod setup;
mod sim;
mod tidy;
mod toolchain;
mod torch_stubs;
mod verifier;
mod workspace;

use crate::workspace::Workspace;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
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
    Build,
    /// Set up, build, and show where a PyTorch training spends its joules.
    Demo {
        /// How long to train, in seconds.
        #[arg(default_value_t = 15)]
        seconds: u32,
    },
    /// Set up and run everything that CI runs; needs root, because BPF programs are loaded.
    Test(checks::Options),
    /// Start simulated power hardware and say how to point energy-trace at it.
    Sim {
        /// Which hardware.
        device: sim::Device,
        /// What the simulator is told; `-- --help` shows what it takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Compare the unwind rows of libraries with what gimli says, and print the figures.
    CheckRows {
        /// ELF files; without any, the libc, the interpreters and the frameworks of this machine.
        files: Vec<PathBuf>,
    },
    /// Measure, beside other tools where there are any; prints tables and asserts nothing.
    Bench {
        /// Also keep the tables in docs/results/PAGE.md, with date, commit and machine.
        #[arg(long, value_name = "PAGE")]
        save: Option<String>,
        /// What.
        #[command(subcommand)]
        what: bench::Bench,
    },
    /// Boot other kernels under an emulator, record there with the same BPF programs, and check the stacks. Needs no root.
    Kernels(kernels::Options),
    /// Write anew how many instructions the running kernel verifies for each BPF program; needs root.
    Verifier,
    /// Sample every CPython of this machine and compare its stacks with its own word; needs root, prints a table.
    Oracle(oracle::Options),
    /// Compare the line tables of the standard library of every CPython of this machine with its own word, and print the figures.
    CheckLines,
    /// Open each export with a program that people open it with, and compare its energy with the report's; fetches these programs.
    Consumers(consumers::Options),
    /// Build the fuzz targets and run each for a while; fetches `cargo fuzz` where it is missing.
    Fuzz(fuzz::Options),
    /// Open the HTML report in Chromium and check what it shows; records a program for some seconds unless a recording is named.
    Page(page::Options),
    /// Make what people install: tar.gz, deb, rpm, a wheel for pip, checksums and a list of parts, in target/package.
    Package(package::Options),
    /// Check the house rules that neither rustc nor clippy knows.
    Tidy,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}"); // no backtrace, whatever RUST_BACKTRACE says: the text is for the person who typed
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup { frameworks } => setup::task(&workspace, frameworks),
        Task::Build => product::task(&workspace),
        Task::Demo { seconds } => demo::task(&workspace, seconds),
        Task::Test(options) => checks::task(&workspace, &options),
        Task::Sim { device, args } => sim::task(&workspace, device, &args),
        Task::CheckRows { files } => rows::task(&workspace, &files),
        Task::Bench { save, what } => bench::task(&workspace, save.as_deref(), &what),
        Task::Kernels(options) => kernels::task(&workspace, &options),
        Task::Verifier => verifier::task(&workspace),
        Task::Oracle(options) => oracle::task(&workspace, &options),
        Task::CheckLines => oracle::check_lines(&workspace),
        Task::Consumers(options) => consumers::task(&workspace, &options),
        Task::Fuzz(options) => fuzz::task(&workspace, &options),
        Task::Page(options) => page::task(&workspace, &options),
        Task::Package(options) => package::task(&workspace, &options),
        Task::Tidy => tidy::task(&workspace),
    }
}
