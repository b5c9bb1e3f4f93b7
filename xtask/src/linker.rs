//! bpf-linker: finding one whose LLVM reads the compiler's bitcode, or building one.
//!
//! It links LLVM as a shared library, so `llvm-N-dev` is needed to build it and `libLLVM` stays needed to run it.

use crate::apt::{Package, package};
use crate::command::{find, read_output, run_logged};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the programs are linked with.
pub(crate) const VERSION: &str = "0.13.0";

/// The LLVM versions that this version can be built for (its Cargo features, `llvm-21` to `llvm-23`).
const LLVM_FEATURES: std::ops::RangeInclusive<u32> = 21..=23;

/// An installed linker of the right version for a compiler with LLVM `llvm`: the cache folder's, or one on `PATH`.
pub(crate) fn find_linker(workspace: &Workspace, llvm: u32) -> Option<PathBuf> {
    let own = workspace.tools().join("bin/bpf-linker");
    [Some(own), find("bpf-linker")].into_iter().flatten().find(|file| suits(file, llvm))
}

/// It must start (its libraries are there), be of our version, and carry an LLVM that is not older than the compiler's.
fn suits(linker: &Path, llvm: u32) -> bool {
    let version = read_output(Command::new(linker).arg("--version")).unwrap_or_default();
    if version.split_whitespace().last() != Some(VERSION) {
        return false;
    }
    // A linker that names no shared LLVM has one inside (the released binaries), and its version cannot be asked.
    fs::read(linker).is_ok_and(|bytes| parse_shared_llvm(&bytes).is_none_or(|major| major >= llvm))
}

/// The major version in the name of the LLVM library that an executable needs (`libLLVM.so.22.1`).
fn parse_shared_llvm(executable: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"libLLVM.so.";
    let start = executable.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let digits: String = executable
        .get(start..)?
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .map(|&byte| char::from(byte))
        .collect();
    digits.parse().ok()
}

/// What building the linker needs from Debian.
pub(crate) fn packages(llvm: u32) -> Vec<Package> {
    vec![package(&format!("llvm-{llvm}-dev"), "LLVM, the same as the BPF compiler's, for bpf-linker")]
}

/// LLVM does the linking, and is a library that is there: what is compiled around it need not be fast. The object is the same byte for byte.
const QUICK_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256"),
];

/// Builds the linker into the cache folder.
pub(crate) fn install(workspace: &Workspace, llvm: u32) -> Result<PathBuf> {
    let prefix = PathBuf::from(format!("/usr/lib/llvm-{llvm}"));
    if !LLVM_FEATURES.contains(&llvm) || !prefix.join("lib").is_dir() {
        bail!(by_hand(workspace, llvm));
    }
    let library = prefix.join("lib");
    let path = env::var_os("PATH").unwrap_or_default();
    let path =
        env::join_paths([prefix.join("bin")].into_iter().chain(env::split_paths(&path))).context("PATH")?;
    let mut cargo = workspace.cargo();
    cargo
        .args([
            "install",
            "bpf-linker",
            "--version",
            VERSION,
            "--locked",
            "--force",
            "--no-default-features",
            "--features",
        ])
        .arg(format!("llvm-{llvm}"))
        .arg("--root")
        .arg(workspace.tools())
        .envs(QUICK_BUILD)
        .env("PATH", path)
        .env("LIBRARY_PATH", &library)
        .env("RUSTFLAGS", format!("-C link-arg=-Wl,-rpath,{}", library.display()));
    run_logged(&mut cargo, &workspace.log())?;
    find_linker(workspace, llvm)
        .with_context(|| format!("bpf-linker was built but does not run; {}", by_hand(workspace, llvm)))
}

fn by_hand(workspace: &Workspace, llvm: u32) -> String {
    format!(
        "bpf-linker {VERSION} for LLVM {llvm} is missing and cannot be built here. Either install llvm-{llvm}-dev (Debian, or \
         https://apt.llvm.org), or put a released bpf-linker {VERSION} (https://github.com/aya-rs/bpf-linker/releases) into {} or on \
         the PATH; then run the same task again.",
        workspace.tools().join("bin").display()
    )
}

#[cfg(test)]
mod tests {
    use super::parse_shared_llvm;

    /// The needed library's name tells LLVM's major version; an executable without one tells nothing.
    #[test]
    fn the_needed_library_tells_the_llvm_version() {
        assert_eq!(parse_shared_llvm(b"\0libc.so.6\0libLLVM.so.22.1\0"), Some(22));
        assert_eq!(parse_shared_llvm(b"\0libc.so.6\0"), None);
        assert_eq!(parse_shared_llvm(b"\0libLLVM.so."), None);
    }
}
