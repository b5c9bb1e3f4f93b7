//! The row tables of libraries against gimli: figures, and a failure on any difference.
//!
//! The check itself is the test `rows_of_given_files` (`tests/offline/unwind/rows`), built for release because large libraries have millions of
//! rows. This finds the files.

use crate::command::run;
use crate::product::{Compiled, build_probes, ignored_test};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// `cargo xtask check-rows`. Without files it takes those of this machine that the issue names.
pub(crate) fn task(workspace: &Workspace, files: &[PathBuf]) -> Result<()> {
    let files = match files {
        [] => find_files(workspace),
        given => given
            .iter()
            .map(|file| fs::canonicalize(file).with_context(|| format!("no file {}", file.display())))
            .collect::<Result<_>>()?,
    };
    ensure!(!files.is_empty(), "found no libraries; name some: cargo xtask check-rows FILE…");
    build_probes(workspace, Purpose::Build)?;
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let mut test =
        ignored_test(workspace, Compiled::Release, "offline", "unwind::rows::rows_of_given_files")?;
    run(test.env("ENERGY_TRACE_ELF_FILES", names.join("\n")))
}

/// libc and its like, and the interpreters and frameworks of this machine; equal files once.
fn find_files(workspace: &Workspace) -> Vec<PathBuf> {
    let mut roots = vec![
        PathBuf::from("/lib/x86_64-linux-gnu"),
        PathBuf::from("/usr/bin"),
        PathBuf::from("/usr/local/bin"),
        PathBuf::from("/usr/lib/python3/dist-packages"),
        workspace.venvs(),
    ];
    roots.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions")));
    let mut found = BTreeMap::new();
    for root in roots {
        let files = WalkDir::new(root).into_iter().flatten().filter(|entry| entry.file_type().is_file());
        for entry in files.filter(|entry| is_wanted(entry.path())) {
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            found.insert((entry.file_name().to_owned(), bytes), entry.into_path());
        }
    }
    let mut files: Vec<PathBuf> = found.into_values().collect();
    files.sort();
    files
}

/// Whether a file is one of those that stacks of machine learning go through.
fn is_wanted(path: &Path) -> bool {
    const LIBRARIES: [&str; 9] = [
        "libc.",
        "libm.",
        "libstdc++.",
        "libgcc_s.",
        "ld-linux",
        "libgomp",
        "libpython",
        "libopenblas",
        "libtorch",
    ];
    const FRAMEWORKS: [&str; 6] = ["numpy", "numpy.libs", "torch", "tensorflow", "onnxruntime", "jaxlib"];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let library = name.ends_with(".so") || name.contains(".so.");
    let of_framework = || path.iter().any(|part| FRAMEWORKS.iter().any(|name| part == *name));
    let interpreter = name.strip_prefix("python3.").is_some_and(|minor| minor.parse::<u8>().is_ok());
    interpreter || library && (LIBRARIES.iter().any(|start| name.starts_with(start)) || of_framework())
}

#[cfg(test)]
mod tests {
    use super::is_wanted;
    use std::path::Path;

    /// Libraries by name or framework, interpreters by name; headers, scripts and other libraries are passed over.
    #[test]
    fn wanted_files() {
        for path in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/usr/bin/python3.11",
            "/v/lib/libpython3.12.so.1.0",
            "/v/site-packages/torch/lib/libc10.so",
            "/v/site-packages/numpy.libs/libgfortran-0352e75f.so.5.0.0",
        ] {
            assert!(is_wanted(Path::new(path)), "{path}");
        }
        for path in [
            "/usr/bin/python3.11-config",
            "/lib/libcap.so.2",
            "/v/torch/nn.py",
            "/v/libpython3.11.a",
            "/a/b.so",
        ] {
            assert!(!is_wanted(Path::new(path)), "{path}");
        }
    }
}
