//! Building the BPF programs: package `tracer-ebpf`, binary `energy-trace-probes`, target `bpfel-unknown-none`.
//!
//! The flags follow aya-build 0.2 (`build_ebpf`): the CPU architecture for aya's `pt_regs` accessors, debug info, and BTF from it.
//! `tracer/build.rs` picks the object up.

use crate::command::{Started, run};
use crate::setup::{self, Purpose, Tools};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::env::consts::ARCH;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "bpfel-unknown-none";

/// What a compiler warning in the programs means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// It is shown.
    Shown,
    /// It fails the build.
    Denied,
}

/// Installs what `purpose` needs and builds the object, and beside both what `others` says of the packages for this machine: installing mostly
/// waits, the BPF programs use one CPU only, and the package that embeds them waits for them (`tracer/build.rs`). `others` may have embedded an
/// older object, where only compilers or flags have changed: run it once more, or what builds on it, to be sure.
pub(crate) fn build_beside(
    workspace: &Workspace,
    purpose: Purpose,
    warnings: Warnings,
    others: &mut Command,
) -> Result<()> {
    let lock = workspace.probes_lock();
    fs::create_dir_all(workspace.bpf_target()).context("cannot make the folder of the BPF programs")?;
    let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    lock.lock().context("cannot lock the folder of the BPF programs")?;
    // A progress bar would be in the way of what set-up says.
    let others = Started::new(others.env("CARGO_TERM_PROGRESS_WHEN", "never"))?;
    let tools = setup::run(workspace, purpose)?;
    build(workspace, &tools, warnings)?;
    drop(lock);
    others.wait()
}

/// Builds the object and leaves it at `workspace.probes()`.
pub(crate) fn build(workspace: &Workspace, tools: &Tools, warnings: Warnings) -> Result<()> {
    let mut flags =
        vec![format!("--cfg=bpf_target_arch=\"{ARCH}\""), "-Cdebuginfo=2".into(), "-Clink-arg=--btf".into()];
    if warnings == Warnings::Denied {
        flags.push("-Dwarnings".into());
    }
    let mut cargo = workspace.cargo();
    cargo
        .args([
            "build",
            "--quiet",
            "--package",
            "tracer-ebpf",
            "--bin",
            "energy-trace-probes",
            "--release",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(workspace.bpf_target())
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &tools.linker)
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "full")
        // `cargo run` puts its own toolchain's libraries first; the other compiler must find its own.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    run(&mut tools.compiler.apply(cargo)).context("the BPF programs do not build")?;
    let built = workspace.bpf_target().join(TARGET).join("release/energy-trace-probes");
    copy_newer(&built, &workspace.probes())
}

/// Copies `from` over `to` only when `from` is newer, so that an object that stayed the same does not rebuild the product.
fn copy_newer(from: &Path, to: &Path) -> Result<()> {
    let made = |file: &Path| fs::metadata(file).and_then(|meta| meta.modified());
    let built = made(from).with_context(|| format!("the build left no {}", from.display()))?;
    if made(to).is_ok_and(|copied| copied >= built) {
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::copy_newer;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    /// A newer object replaces the copy, an older one leaves it alone, and a missing one is an error that names it.
    #[test]
    fn only_a_newer_object_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        assert!(copy_newer(&from, &to).unwrap_err().to_string().contains("from"));
        fs::write(&from, "one").unwrap();
        copy_newer(&from, &to).unwrap();
        fs::write(&from, "two").unwrap();
        let set = |time| File::options().write(true).open(&from).unwrap().set_modified(time).unwrap();
        set(SystemTime::now() - Duration::from_secs(60));
        copy_newer(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "one");
        set(SystemTime::now() + Duration::from_secs(60));
        copy_newer(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
    }
}
