//! The CPythons of this machine that tests run: the system's, pyenv's, and those that `xtask/pythons` fetched or built.
//!
//! Leaves out installing any (`xtask/pythons`, `cargo xtask oracle`).

use crate::cache;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The interpreter of Debian itself.
const SYSTEM: &str = "/usr/bin/python3";

/// Interpreters with a given range of minor versions, of pyenv and of `xtask/pythons`, by path.
///
/// # Panics
/// With `ENERGY_TRACE_CI` in the environment, when there is none: there a test must not pass because it had nothing to look at.
pub fn found(minors: RangeInclusive<u32>) -> Vec<PathBuf> {
    let found = look_for(&minors);
    assert!(
        !found.is_empty() || std::env::var_os("ENERGY_TRACE_CI").is_none(),
        "no CPython 3.{}..={} in ~/.pyenv/versions or in the cache folder",
        minors.start(),
        minors.end()
    );
    found
}

fn look_for(minors: &RangeInclusive<u32>) -> Vec<PathBuf> {
    let pyenv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let places = [pyenv, cache::folder().map(|cache| cache.join("pythons"))];
    let folders = places.iter().flatten().flat_map(std::fs::read_dir).flatten().flatten().map(|f| f.path());
    let mut out: Vec<PathBuf> = folders
        .filter(|folder| minor_of(folder).is_some_and(|minor| minors.contains(&minor)))
        .map(|folder| folder.join("bin/python3"))
        .collect();
    out.retain(|p| p.exists());
    out.sort();
    out
}

/// All that can be unwound: the system's own always, and what was found.
pub fn supported() -> Vec<PathBuf> {
    let mut out = vec![PathBuf::from(SYSTEM)];
    out.extend(found(6..=15));
    out
}

/// One for each way in which CPython keeps its frames: as objects (up to 3.10), in a stack of its own (the system's), and as it says itself where they
/// lie (from 3.13 on). All that can be unwound with `cargo xtask test --all`.
pub fn of_each_kind() -> Vec<PathBuf> {
    if std::env::var_os("ENERGY_TRACE_ALL").is_some() {
        return supported();
    }
    let others = [6..=10, 13..=15].into_iter().filter_map(|minors| found(minors).pop());
    [PathBuf::from(SYSTEM)].into_iter().chain(others).collect()
}

/// The version of an interpreter as `3.13`, `3.13t` where it is free-threaded; empty where it does not start.
pub fn version(python: &Path) -> String {
    let ask = "import sys, sysconfig; \
               print('%d.%d%s' % (*sys.version_info[:2], 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED'))))";
    let output = Command::new(python).args(["-c", ask]).stderr(Stdio::null()).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// Where `cargo xtask oracle` puts numpy and greenlet for a version; `None` where it did not.
pub fn packages(version: &str) -> Option<PathBuf> {
    let folder = cache::folder()?.join("oracle").join(version);
    (!version.is_empty() && folder.is_dir()).then_some(folder)
}

/// The Python that has Nuitka, where `cargo xtask test --all` has put it.
pub fn nuitka() -> Option<PathBuf> {
    let python = cache::folder()?.join("venvs/nuitka/bin/python");
    python.exists().then_some(python)
}

/// The Python that has the package nvtx, where `cargo xtask test --all` has put it.
pub fn nvtx() -> Option<PathBuf> {
    let python = cache::folder()?.join("venvs/nvtx/bin/python");
    python.exists().then_some(python)
}

/// The Python that has PyPI's PyTorch, where `cargo xtask test --all` has put it.
pub fn torch() -> Option<PathBuf> {
    let python = cache::folder()?.join("venvs/torch/bin/python");
    python.exists().then_some(python)
}

/// The x of a folder `…3.x.y`, `…-3.xt`.
fn minor_of(folder: &Path) -> Option<u32> {
    let version = folder.file_name()?.to_str()?.rsplit('-').next()?;
    version.strip_prefix("3.")?.split(['.', 't']).next()?.parse().ok()
}
