//! Whether `--gpu kernel` has what it needs: the library that is injected, and a CUPTI where programs look for one.
//!
//! Programs often bring a CUPTI of their own (PyTorch, JAX), which is not to be seen here; so none on the machine is no more than a remark.

use super::finding::{DoctorPlan, Finding};
use crate::tracee::injection::{INJECTION, find_library};
use energy_trace_system::arch::LIBRARIES;
use std::path::{Path, PathBuf};

const AREA: &str = "gpu";
/// CUPTI's files, by the major versions that are known.
const NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
/// Where toolkits and distributions put it.
const PLACES: [&str; 4] =
    ["/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", LIBRARIES, "/usr/lib64"];

pub(super) fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&search).filter(|path| path.is_absolute()).collect();
    folders.extend(PLACES.map(|place| plan.rootfs.join(place.trim_start_matches('/'))));
    let mut findings = vec![of_library(), of_cupti(&folders)];
    if let Some(other) = std::env::var_os(INJECTION).filter(|path| !path.is_empty()) {
        let text =
            format!("{INJECTION} is set to {}: --gpu kernel loads that library first", other.display());
        findings.push(Finding::ok(AREA, text));
    }
    findings
}

fn of_library() -> Finding {
    match find_library() {
        Ok(library) => {
            Finding::ok(AREA, format!("--gpu kernel: the library for the program is {}", library.display()))
        }
        Err(error) => Finding::warn(
            AREA,
            format!("--gpu kernel cannot time kernels here and works like --gpu launch: {error}"),
            "cargo xtask build",
        ),
    }
}

fn of_cupti(folders: &[PathBuf]) -> Finding {
    match find_cupti(folders) {
        Some(file) => Finding::ok(AREA, format!("--gpu kernel: CUPTI is at {}", file.display())),
        None => Finding::warn(
            AREA,
            "--gpu kernel: no CUPTI in the usual places; kernels are timed only in programs that bring their own, as PyTorch does",
            "pip install nvidia-cuda-cupti-cu12 (or install the CUDA toolkit), and set ENERGY_TRACE_CUPTI_LIB to the library",
        ),
    }
}

fn find_cupti(folders: &[PathBuf]) -> Option<PathBuf> {
    let files = folders.iter().flat_map(|folder: &PathBuf| NAMES.map(|name| folder.join(name)));
    files.into_iter().find(|file: &PathBuf| Path::is_file(file))
}

#[cfg(test)]
mod tests {
    use super::of_cupti;
    use crate::doctor::Level;

    /// A CUPTI in one of the folders is named; none is a warning that says what to install.
    #[test]
    fn cupti_is_found_or_missed() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("none"), folder.path().to_owned()];
        let missed = of_cupti(&folders);
        assert!(missed.level == Level::Warn && missed.fix.unwrap().contains("pip install"));
        std::fs::write(folder.path().join("libcupti.so.12"), "").unwrap();
        let found = of_cupti(&folders);
        assert!(found.level == Level::Ok && found.text.contains("libcupti.so.12"), "{found:?}");
    }
}
