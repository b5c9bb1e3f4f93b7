//! Everything that CI runs, in the order in which it fails fastest.
//!
//! Tests run one at a time: the live ones load BPF programs and measure energy, and two at once would see each other. A lock keeps
//! a second `cargo xtask test` of the same user waiting for the same reason.

use crate::bpf::{self, Warnings};
use crate::command::run;
use crate::kernel;
use crate::setup::{self, Purpose};
use crate::tidy;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use nix::sys::signal::{self, SigHandler, Signal};
use std::fs::{File, TryLockError};
use std::time::Instant;

/// `cargo xtask test`. The closing lines are those of `cargo test`.
pub(crate) fn chore(workspace: &Workspace) -> Result<()> {
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
    tidy::chore(workspace)?;
    heading("BPF programs");
    bpf::build(workspace, &tools, Warnings::Denied)?;
    heading("clippy");
    cargo(
        workspace,
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--locked",
            "--keep-going",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    heading("the product and the simulated hardware");
    cargo(workspace, &["build", "--quiet", "--workspace", "--locked"])?;
    cargo(workspace, &["test", "--quiet", "--workspace", "--locked", "--no-run"])?;
    heading("tests");
    let _alone = wait_for_other_runs(workspace)?;
    cargo(workspace, &["test", "--workspace", "--locked", "--no-fail-fast"])
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

fn cargo(workspace: &Workspace, args: &[&str]) -> Result<()> {
    run(workspace.cargo().args(args).env("RUST_TEST_THREADS", "1"))
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
