//! The folder that all packages hold, laid out as below `/usr`: program, library, manual, completions, questions, what installs the
//! agent, licences.
//!
//! Leaves out the packages' own files (control files, metadata).

use super::build::Built;
use super::parts::Parts;
use crate::command::run;
use crate::cross::command_for;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What people read, in the project's top folder.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// What asks a server's BMC for `--power bmc:FILE`.
const BMC: &str = "bmc-power.sh";
/// Folders of examples that the program is used with: questions to tables, what installs the agent.
const EXAMPLES: [&str; 2] = ["sql", "agent"];
/// Where these lie.
pub(crate) const SHARE: &str = "share/energy-trace";
/// Where documents lie.
pub(crate) const DOC: &str = "share/doc/energy-trace";
/// Where the library lies: one of the places in which the program looks.
pub(crate) const LIBRARY: &str = "lib/energy-trace/libenergy_trace_cupti.so";

/// Makes the folder anew at `tree`.
pub(crate) fn make(
    workspace: &Workspace,
    built: &Built,
    parts: &Parts,
    tree: &Path,
    target: Target,
) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    install(&built.program, &tree.join("bin/energy-trace"), 0o755)?;
    install(&built.library, &tree.join(LIBRARY), 0o644)?;
    for name in DOCUMENTS {
        install(&workspace.root().join(name), &tree.join(DOC).join(name), 0o644)?;
    }
    install(&workspace.root().join("examples").join(BMC), &tree.join(DOC).join(BMC), 0o644)?;
    for (from, to) in examples(workspace.root())? {
        install(&from, &tree.join(to), 0o644)?;
    }
    fs::write(tree.join(DOC).join("THIRD-PARTY"), parts.notices()?)?;
    // The program writes its own manual and completions: they are those of this build.
    let program = tree.join("bin/energy-trace");
    run(command_for(workspace, target, &program).arg("pages").arg(tree.join("share")))?;
    let manual = files_below(&tree.join("share/man"))?;
    run(Command::new("gzip").args(["-9", "--no-name"]).args(manual).arg(tree.join(DOC).join("THIRD-PARTY")))?;
    for file in files_below(tree)?.iter().filter(|file| !file.starts_with(tree.join("bin"))) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Examples that all packages hold, each with its place.
pub(crate) fn examples(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let (from, mut found) = (root.join("examples"), Vec::new());
    for name in EXAMPLES {
        for file in files_below(&from.join(name))? {
            let to = Path::new(SHARE).join(file.strip_prefix(&from)?);
            found.push((file, to));
        }
    }
    Ok(found)
}

/// Copies a file to a place whose folders may be missing.
pub(crate) fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let folder = to.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

/// Copies a folder with all that is in it; `to` must not be there.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder lies in another")?)?;
    run(Command::new("cp").arg("-a").args([from, to]))
}

/// Every file below `folder`, sorted.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{SHARE, examples};
    use std::path::Path;

    /// Every question and all that installs the agent has its place.
    #[test]
    fn examples_are_there() {
        let places = examples(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        for wanted in [
            "sql/views.duckdb.sql",
            "sql/budgets.sql",
            "agent/energy-trace-agent.service",
            "agent/energy-trace-attach.socket",
            "agent/energy-trace-attach@.service",
            "agent/daemonset.yaml",
            "agent/servicemonitor.yaml",
            "agent/otel-collector.yaml",
            "agent/grafana-dashboard.json",
            "agent/oci_image.py",
        ] {
            let to = Path::new(SHARE).join(wanted);
            assert!(places.iter().any(|place| place.1 == to && place.0.ends_with(wanted)), "{places:?}");
        }
    }
}
