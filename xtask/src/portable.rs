//! What packages may not depend on: those that people read recordings with could be built where no Linux is (macOS and Windows), and those
//! that record need nothing of reports.
//!
//! No standard library of another system can be had with the one toolchain of this project, so nothing is compiled. What is shown: what the
//! packages depend on there (cargo resolves it for the target) is nothing that only Linux has. That they name nothing of one system themselves
//! is tidy's rule `pure-room`.

use crate::command::read_output;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};

/// The packages without Linux.
const PACKAGES: [&str; 11] = [
    "energy-trace-attribution",
    "energy-trace-certainty",
    "energy-trace-counters",
    "energy-trace-cpu-time",
    "energy-trace-delegation",
    "energy-trace-export",
    "energy-trace-model",
    "energy-trace-names",
    "energy-trace-report",
    "energy-trace-sentences",
    "energy-trace-statistics",
];
/// The packages that record; they have the others of that side below them.
const RECORDERS: [&str; 2] = ["energy-trace-power", "energy-trace-probe"];
/// What they are built without: what recordings mean, how that is shown, and what heavy formats need.
const NOT_RECORDED: [&str; 8] = [
    "energy-trace",
    "energy-trace-attribution",
    "energy-trace-export",
    "energy-trace-report",
    "energy-trace-study",
    "parquet",
    "prost",
    "quick-xml",
];
/// Systems on which reports are read.
const TARGETS: [&str; 4] =
    ["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-msvc", "aarch64-unknown-linux-gnu"];
/// What touches a machine, or exists for Linux or Unix alone.
const PLATFORM: [&str; 14] = [
    "aya",
    "aya-obj",
    "blazesym",
    "caps",
    "energy-trace",
    "landlock",
    "linux-raw-sys",
    "memmap2",
    "nix",
    "nvml-wrapper",
    "perf-event2",
    "rustix",
    "seccompiler",
    "tokio",
];

/// Fails where one of the packages needs what another system lacks, or what records needs what reports.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for target in TARGETS {
        refuse(workspace, &PACKAGES, &PLATFORM, &["--target", target])?;
    }
    refuse(workspace, &RECORDERS, &NOT_RECORDED, &[])
}

/// Fails where `packages` depend on any of `refused`.
fn refuse(workspace: &Workspace, packages: &[&str], refused: &[&str], more: &[&str]) -> Result<()> {
    let mut tree = workspace.cargo();
    tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"]).args(more);
    tree.args(packages.iter().flat_map(|package| ["--package", package]));
    let listed =
        read_output(&mut tree).with_context(|| format!("dependencies of {}", packages.join(", ")))?;
    let found = named(&listed, refused);
    if !found.is_empty() {
        bail!("{} would need {} {}", packages.join(", "), found.join(", "), more.join(" "));
    }
    Ok(())
}

/// Those of a list of `name v1.2.3 …` that are among `refused`.
fn named<'a>(listed: &'a str, refused: &[&str]) -> Vec<&'a str> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| refused.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{PLATFORM, named};

    /// A crate of the platform is found by its whole name, wherever in the list it stands.
    #[test]
    fn what_linux_alone_has_is_found() {
        assert_eq!(named("serde v1.0.2\nnix v0.31.1\nnixish v1.0.0\n\n", &PLATFORM), ["nix"]);
        assert_eq!(named("energy-trace-model v0.1.0 (/x)\nserde v1.0.2", &PLATFORM), Vec::<&str>::new());
    }
}
