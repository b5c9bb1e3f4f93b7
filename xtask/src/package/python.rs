//! The Python package, as the wheel holds it: modules, the mark that they have types, entry points.
//!
//! Leaves out the program, which lies beside it (`formats.rs`).

use super::tree::{files_below, install};
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::Path;

/// Lays it out in `folder`, where Python looks for packages, and what it says of itself in `info`.
pub(crate) fn lay_out(workspace: &Workspace, folder: &Path, info: &Path) -> Result<()> {
    let source = workspace.root().join("tracer/python");
    for file in files_below(&source.join("energy_trace"))? {
        // What Python has compiled there is this machine's.
        let is_compiled = file.extension().is_some_and(|extension| extension == "pyc");
        if !is_compiled {
            install(&file, &folder.join(file.strip_prefix(&source)?), 0o644)?;
        }
    }
    install(&source.join("entry_points.txt"), &info.join("entry_points.txt"), 0o644)
}
