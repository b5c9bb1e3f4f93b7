//! Files and a compiler of the processor whose rules are tested: the one that tests run on, that an emulator of single programs stands for, or that
//! was told.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

/// Where Debian has the C library and its companions: the machine's own, or those that its cross compiler links with.
const FOLDERS: [&str; 3] = ["/lib/x86_64-linux-gnu", "/usr/aarch64-linux-gnu/lib", "/lib/aarch64-linux-gnu"];

/// Whether it is x86-64.
const OF_X86_64: bool = cfg!(all(target_arch = "x86_64", not(bpf_target_arch = "aarch64")));

/// The path of a library.
pub(crate) fn library_path(name: &str) -> PathBuf {
    let folders = if OF_X86_64 { &FOLDERS[..1] } else { &FOLDERS[1..] };
    let found = folders.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// A library, open.
pub(crate) fn library(name: &str) -> File {
    File::open(library_path(name)).unwrap()
}

/// The C compiler; on aarch64 by the name that Debian's has on any machine.
pub(crate) fn compiler() -> Command {
    Command::new(if OF_X86_64 { "gcc" } else { "aarch64-linux-gnu-gcc" })
}

/// How far the CFA lies above the stack pointer where a function begins: over the return address, where a call pushes it.
pub(crate) const CFA_AT_ENTRY: i64 = if OF_X86_64 { 8 } else { 0 };

/// Whether libc returns from signal handlers itself, and not the vDSO.
pub(crate) const LIBC_RETURNS_FROM_SIGNALS: bool = OF_X86_64;

/// Places of a static program where code must say what the compiler does: a push is one for each register, or one for two.
pub(crate) const PLACES_BY_CODE: usize = if OF_X86_64 { 5_000 } else { 2_500 };
