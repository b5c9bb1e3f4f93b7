//! Files and a compiler of the processor that tests run on, or that an emulator of single programs stands for.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

/// Where Debian has the C library and its companions: the machine's own, or those that its cross compiler links with.
const FOLDERS: [&str; 3] = ["/lib/x86_64-linux-gnu", "/usr/aarch64-linux-gnu/lib", "/lib/aarch64-linux-gnu"];

/// The path of a library.
pub(crate) fn library_path(name: &str) -> PathBuf {
    let folders = if cfg!(target_arch = "x86_64") { &FOLDERS[..1] } else { &FOLDERS[1..] };
    let found = folders.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// A library, open.
pub(crate) fn library(name: &str) -> File {
    File::open(library_path(name)).unwrap()
}

/// The C compiler; on aarch64 by the name that Debian's has on any machine.
pub(crate) fn compiler() -> Command {
    Command::new(if cfg!(target_arch = "x86_64") { "gcc" } else { "aarch64-linux-gnu-gcc" })
}
