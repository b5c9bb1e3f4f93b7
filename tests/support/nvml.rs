//! Where the stand-in for `libnvidia-ml.so.1` lies, and its script. Leaves out the library itself (`tests/nvml`).

pub use nvml_sim::script::{Device, Script, VARIABLE as SCRIPT_VARIABLE};
use std::path::{Path, PathBuf};

/// Where cargo put the library for a test or a program that it built: beside it, or in `deps` beside it.
pub fn library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).take(2).flat_map(|f| [f.to_owned(), f.join("deps")]);
    folders.map(|folder| folder.join("libnvml_sim.so")).find(|file| file.exists())
}

/// Writes a script as a file.
///
/// # Errors
/// When the file cannot be written.
pub fn write_script(path: &Path, script: &Script) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_vec(script)?)
}
