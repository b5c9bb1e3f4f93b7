//! Everything that CI runs, in the order in which it fails fastest.
//!
//! Three test programs (`tests/README.md`). `offline` and the unit tests run beside each other. `gpu` runs two tests at a time: they wait for
//! simulated hardware. `live` runs one at a time: it measures energy and CPU time of real programs. Clippy compiles everything once more, so
//! it takes the time in which GPU tests wait. A lock keeps a second `cargo xtask test` of the same user waiting. Measurements and
//! long matrices are `--all`.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::kernel;
use crate::portable;
use crate::setup::{self, Purpose};
use crate::tidy;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, anyhow};
use nix::sys::signal::{self, SigHandler, Signal};
use std::fs::{File, TryLockError};
use std::num::NonZero;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is run beyond what CI runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also the slow tests: every accuracy scenario, long recordings, all versions of drivers and prologues.
    #[arg(long)]
    all: bool,
}

/// Tests that are left out unless asked for by name: they write files or need to be told what to look at.
const BY_NAME: [&str; 4] =
    ["rows_of_given_files", "write_rows_of_this_kernel", "ten_minutes", "rules::target"];

/// Cargo finds in less that there is nothing left to build.
const AFTER_THE_LOCK: Duration = Duration::from_secs(10);

/// `cargo xtask test`. The closing lines are those of `cargo test`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let start = Instant::now();
    let heading = |text: &str| eprintln!("\n==> {text} [{} s]", start.elapsed().as_secs());
    heading("may BPF programs be loaded here?");
    kernel::check_bpf()?;
    restore_signals()?;
    heading("set-up");
    let tools = setup::run(workspace, Purpose::Test)?;
    heading("formatting");
    // Only the names of the files: the differences are one `cargo fmt --all` away.
    run(workspace.cargo().args(["fmt", "--all", "--check", "--", "-l"]))
        .context("these files want `cargo fmt --all`")?;
    heading("house rules (tidy)");
    tidy::task(workspace)?;
    portable::check(workspace)?;
    heading("BPF programs");
    bpf::build(workspace, &tools, Warnings::Denied)?;
    heading("the product and the simulated hardware");
    cargo(workspace, &["build", "--quiet"], &[], &[])?;
    cargo(workspace, &["test", "--quiet", "--no-run", "--lib", "--bins", "--tests"], &[], &[])?;
    let _alone = wait_for_other_runs(workspace)?;
    heading("unit tests and offline tests, beside each other");
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get).to_string();
    let mut failed = Vec::new();
    let mut test = |targets: &[&str], harness: &[&str], threads: &str| {
        let words: Vec<_> = [&["test", "--no-fail-fast"], targets].concat();
        let all = options.all.then_some(("ENERGY_TRACE_ALL", "1"));
        let env: Vec<_> = all.into_iter().chain([("RUST_TEST_THREADS", threads)]).collect();
        failed.extend(cargo(workspace, &words, harness, &env).err());
    };
    test(&["--lib", "--bins", "--test", "offline"], &[], &cpus);
    heading("on the simulated GPU, two at a time; clippy beside them");
    let clippy = std::thread::scope(|scope| {
        let clippy = scope.spawn(|| clippy(workspace));
        test(&["--test", "gpu"], &[], "2");
        clippy.join()
    });
    heading("live, one at a time");
    test(&["--test", "live"], &[], "1");
    if options.all {
        heading("slow ones");
        let skip: Vec<_> = BY_NAME.iter().flat_map(|name| ["--skip", name]).collect();
        let slow = [&["--ignored"], skip.as_slice()].concat();
        test(&["--test", "offline", "--test", "gpu", "--test", "live"], &slow, "1");
    }
    failed.extend(clippy.map_or_else(|_| Some(anyhow!("clippy's thread panicked")), Result::err));
    heading("done");
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// Lints while tests mostly wait, with what CPU time they leave. It begins when they have let go of cargo's lock on the build folder.
fn clippy(workspace: &Workspace) -> Result<()> {
    std::thread::sleep(AFTER_THE_LOCK);
    let cargo = workspace.cargo();
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(cargo.get_program()).args(cargo.get_args()).current_dir(workspace.root());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice.args(["clippy", "--quiet", "--workspace", "--locked", "--all-targets", "--keep-going"]);
    run(nice.args(["--", "-D", "warnings"]))
}

/// A shell that starts this in the background leaves SIGINT and SIGQUIT ignored, the tests' own children would inherit that, and those
/// that wait for Ctrl-C would wait for ever.
fn restore_signals() -> Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
        // SAFETY: the default action runs no code of this process.
        unsafe { signal::signal(signal, SigHandler::SigDfl) }
            .with_context(|| format!("cannot restore {signal}"))?;
    }
    Ok(())
}

/// Always of the whole workspace: of a part of it cargo would choose other features, and build what they change again.
fn cargo(workspace: &Workspace, words: &[&str], behind: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(words).args(["--workspace", "--locked"]);
    if !behind.is_empty() {
        cargo.arg("--").args(behind);
    }
    run(cargo.envs(env.iter().copied()))
}

/// Holds the lock until it is dropped; says so when another run makes this one wait.
fn wait_for_other_runs(workspace: &Workspace) -> Result<File> {
    let path = workspace.test_lock();
    let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another `cargo xtask test` ({} is locked)", path.display());
            lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(lock)
}
