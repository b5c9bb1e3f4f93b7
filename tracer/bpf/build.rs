//! Finds the BPF object that `cargo xtask build` made and gives its path to the compiler as `ENERGY_TRACE_PROBES`.
//!
//! It does not build the object: that takes another compiler, and tasks belong to `xtask/`. The variable `ENERGY_TRACE_PROBES` in
//! the environment names another object. While a task builds the object, it waits.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

fn main() -> ExitCode {
    let mut lines = Vec::new();
    let found = find_probes(&mut lines);
    if let Err(text) = &found {
        lines.push(format!("error={text}"));
    }
    let mut out = io::stdout().lock();
    for line in lines {
        if writeln!(out, "cargo::{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    if found.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds to `lines` what cargo has to know, without its `cargo::`; the error is for the person who builds.
fn find_probes(lines: &mut Vec<String>) -> Result<(), String> {
    lines.push("rerun-if-env-changed=ENERGY_TRACE_PROBES".into());
    let root = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .and_then(|package| package.ancestors().nth(2).map(Path::to_path_buf));
    let root = root.ok_or("CARGO_MANIFEST_DIR does not name a folder")?;
    let named = env::var_os("ENERGY_TRACE_PROBES").filter(|path| !path.is_empty()).map(PathBuf::from);
    let probes = named.clone().unwrap_or_else(|| root.join("target/bpf/energy-trace-probes"));
    let source = root.join("tracer-ebpf/src");
    lines.push(format!("rerun-if-changed={}", probes.display()));
    lines.push(format!("rerun-if-changed={}", source.display()));
    if named.is_none() {
        wait_for_build(&root.join("target/bpf/building.lock"));
    }
    let built = fs::metadata(&probes).and_then(|meta| meta.modified()).map_err(|error| {
        format!("no BPF programs at {} ({error}): run `cargo xtask build`", probes.display())
    })?;
    if named.is_none() && newest(&source).is_some_and(|changed| changed > built) {
        lines.push("warning=the BPF programs are older than tracer-ebpf/src: run `cargo xtask build`".into());
    }
    lines.push(format!("rustc-env=ENERGY_TRACE_PROBES={}", probes.display()));
    Ok(())
}

/// Waits while a task that builds the object holds this lock; it is let go when that task ends, however it ends. Without a lock there is no
/// such task.
fn wait_for_build(lock: &Path) {
    if let Ok(lock) = File::open(lock) {
        // What is there afterwards decides; an error here means that it is looked at now.
        drop(lock.lock_shared());
    }
}

/// When anything below `folder` was last changed.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?;
    let times = entries.flatten().filter_map(|entry| match entry.file_type().ok()?.is_dir() {
        true => newest(&entry.path()),
        false => entry.metadata().ok()?.modified().ok(),
    });
    times.max()
}
