//! The oracle matrix: sampled stacks of every CPython of the machine against the interpreter's own word, as a table.
//!
//! The check itself is the test `matrix` (`tests/live/unwind/oracle`). This fetches what it samples: interpreters (`xtask/pythons`) where asked to,
//! and numpy and greenlet for each version from PyPI, into the cache folder. A version for which PyPI has no wheel goes without; the table
//! says which regions that leaves out.

use crate::apt::{self, package};
use crate::command::{run, run_logged};
use crate::kernel;
use crate::product::{Compiled, build_probes, ignored_test};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What regions of the oracle import.
const PACKAGES: [&str; 2] = ["greenlet", "numpy"];
/// The versions that are sampled, free-threaded ones with a `t`.
const VERSIONS: [&str; 11] =
    ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t"];

/// What was typed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// CPU seconds in each region; at 997 samples a second.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// First fetch Debian's 3.9, 3.14 and 3.15, and build a free-threaded 3.13 and one by clang (15 minutes, 1 GB in the cache).
    #[arg(long)]
    fetch: bool,
    /// Only these regions (function names of tests/workloads/oracle.py), separated by blanks.
    #[arg(long, default_value = "")]
    regions: String,
    /// Interpreters; without any, those of this machine: the system's, pyenv's, and the fetched ones.
    pythons: Vec<PathBuf>,
}

/// `cargo xtask oracle`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    kernel::check_bpf()?;
    build_probes(workspace, Purpose::Build)?;
    if options.fetch {
        apt::install(&[package("clang-19", "builds one of the interpreters")], &workspace.log())?;
        run(Command::new(workspace.root().join("xtask/pythons")).args(["3.13t", "clang"]))?;
    }
    for version in VERSIONS {
        fetch_packages(workspace, version);
    }
    let pythons: Vec<String> = options.pythons.iter().map(|path| path.display().to_string()).collect();
    run(ignored_test(workspace, Compiled::Debug, "live", "unwind::oracle::matrix")?
        .env("ENERGY_TRACE_ORACLE_SECONDS", options.seconds.to_string())
        .env("ENERGY_TRACE_ORACLE_REGIONS", &options.regions)
        .env("ENERGY_TRACE_PYTHONS", pythons.join("\n")))
    .context("the rows above say what differs")
}

/// `cargo xtask check-lines`: the line tables of the standard library of each interpreter.
pub(crate) fn check_lines(workspace: &Workspace) -> Result<()> {
    build_probes(workspace, Purpose::Build)?;
    run(&mut ignored_test(workspace, Compiled::Release, "offline", "unwind::lines::whole_library")?)
}

/// Puts the packages for a version into the cache; says so where it cannot.
fn fetch_packages(workspace: &Workspace, version: &str) {
    let folder = workspace.oracle_packages().join(version);
    for package in PACKAGES {
        let tried = folder.join(format!(".{package}"));
        if tried.exists() {
            continue;
        }
        if let Err(why) = fetch_package(workspace, &folder, version, package) {
            eprintln!("oracle: no {package} for {version}: {why:#}");
        }
        // Not tried again on every run, whether there is one or not.
        let _ = fs::create_dir_all(&folder).and_then(|()| fs::write(tried, ""));
    }
}

/// pip of the system's Python takes wheels for any version, and would compare what they require with its own.
fn fetch_package(workspace: &Workspace, folder: &Path, version: &str, package: &str) -> Result<()> {
    eprintln!("oracle: fetching {package} for CPython {version} from PyPI into {}", folder.display());
    let digits = version.trim_end_matches('t').to_owned();
    let own = format!("cp{}", version.replace('.', ""));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--disable-pip-version-check"])
        .args(["--only-binary=:all:", "--upgrade", "--implementation", "cp", "--python-version", &digits])
        .args(["--ignore-requires-python", "--abi", &own]);
    if !version.ends_with('t') {
        pip.args(["--abi", "abi3"]);
    }
    run_logged(pip.arg("--target").arg(folder).arg(package), &workspace.log())
        .context("PyPI has no wheel of it, or pip is missing (apt install python3-pip)")
}

#[cfg(test)]
mod tests {
    use super::VERSIONS;

    /// Versions are written as the tests look for them: a minor version, and a `t` where it is free-threaded.
    #[test]
    fn versions_are_minors() {
        for version in VERSIONS {
            let minor = version.strip_prefix("3.").unwrap().trim_end_matches('t');
            assert!(minor.parse::<u8>().is_ok(), "{version}");
        }
    }
}
