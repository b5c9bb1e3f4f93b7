//! Whether the packages that people read recordings with could be built where no Linux is: macOS and Windows.
//!
//! No standard library of another system can be had with the one toolchain of this project, so nothing is compiled. What is shown: what the
//! packages depend on there (cargo resolves it for the target) is nothing that only Linux has. That they name nothing of one system themselves
//! is tidy's rule `pure-room`.

use crate::command::read_output;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};

/// The packages without Linux.
const PACKAGES: [&str; 4] =
    ["energy-trace-model", "energy-trace-attribution", "energy-trace-report", "energy-trace-statistics"];
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

/// Fails where one of the packages needs what another system lacks.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for target in TARGETS {
        let mut tree = workspace.cargo();
        tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--target", target]);
        tree.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        let listed = read_output(&mut tree).with_context(|| format!("dependencies for {target}"))?;
        let found = of_the_platform(&listed);
        if !found.is_empty() {
            bail!("{} would need {} on {target}", PACKAGES.join(", "), found.join(", "));
        }
    }
    Ok(())
}

/// Names of a list of `name v1.2.3 …` that only the platform may depend on.
fn of_the_platform(listed: &str) -> Vec<&str> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| PLATFORM.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::of_the_platform;

    /// A crate of the platform is found by its whole name, wherever in the list it stands.
    #[test]
    fn what_linux_alone_has_is_found() {
        assert_eq!(of_the_platform("serde v1.0.2\nnix v0.31.1\nnixish v1.0.0\n\n"), ["nix"]);
        assert_eq!(of_the_platform("energy-trace-model v0.1.0 (/x)\nserde v1.0.2"), Vec::<&str>::new());
    }
}
