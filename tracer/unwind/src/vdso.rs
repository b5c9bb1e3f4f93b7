//! The vDSO: code that the kernel maps into every process, an ELF image without a file.
//!
//! All 64-bit processes of a kernel have the same one, so that this process's own serves for all. It is copied into a file in memory,
//! from where rows and names are made as of any other file. Leaves out the vDSO of 32-bit processes, which are not unwound.

use super::address_space::{AddressSpace, FileKey, Mapping};
use super::cpython::memory::{ProcessMemory, Source as _};
use energy_trace_model::ids::Pid;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::LazyLock;

/// Its path in `/proc/PID/maps`.
pub const PATH: &str = "[vdso]";
/// Bytes that are believed to be one: it has a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// Whether a mapping is the vDSO.
pub fn is_vdso(mapping: &Mapping) -> bool {
    mapping.file.is_none() && mapping.path == PATH
}

/// What stands for a file's identity. No device is called so.
static FILE_KEY: LazyLock<FileKey> = LazyLock::new(|| FileKey { device: PATH.to_owned(), inode: 0 });

/// What a mapping's file is called; `None` for code that is in no file.
pub fn key_of(mapping: &Mapping) -> Option<&FileKey> {
    if is_vdso(mapping) { Some(&FILE_KEY) } else { mapping.file.as_ref() }
}

/// The image, in a file that lives until it is closed.
///
/// # Errors
/// Where this process has no vDSO (a kernel started with `vdso=0`), or no file can be made in memory.
pub fn open_image() -> io::Result<File> {
    let own = Pid::new(std::process::id());
    let space = AddressSpace::read(own)?;
    let none = || io::Error::new(io::ErrorKind::NotFound, "this process has no vDSO");
    let mapping = space.mappings().iter().find(|m| is_vdso(m)).ok_or_else(none)?;
    let length = mapping.end.saturating_sub(mapping.start);
    let image = ProcessMemory::of(own).bytes(mapping.start, length, MAX_BYTES).ok_or_else(none)?;
    let mut file = File::from(memfd_create("energy-trace-vdso", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&image)?;
    // The kernel's word, which nobody can change: whoever looks at the file sees that.
    file.set_permissions(Permissions::from_mode(0o400))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{PATH, is_vdso, open_image};
    use crate::address_space::AddressSpace;
    use crate::cfi::build_rows;
    use crate::elf::{ElfFacts, read_eh_frame};

    /// The image is ELF with the functions that the C library calls in it, and with unwind rows.
    #[test]
    #[cfg_attr(
        not(target_arch = "x86_64"),
        ignore = "a name of x86-64's, and emulators of single programs have no vDSO"
    )]
    fn image_has_symbols_and_rows() {
        let file = open_image().unwrap();
        let facts = ElfFacts::read(&file, &["__vdso_clock_gettime"]).unwrap();
        assert!(facts.symbol("__vdso_clock_gettime").is_some());
        let rows = build_rows(&read_eh_frame(&file).unwrap().unwrap(), facts.base);
        assert!(rows.rows.len() > 3, "{rows:?}");
        assert_eq!((rows.damaged, rows.unsupported), (0, 0));
    }

    /// Neither a file of that name nor other pages of the kernel are the vDSO.
    #[test]
    fn only_the_vdso() {
        let maps = "1000-2000 r-xp 0 00:00 0 [vdso]\n3000-4000 r-xp 0 fe:00 7 [vdso]\n5000-6000 --xp 0 00:00 0 [vsyscall]";
        let space = AddressSpace::parse(maps);
        let found: Vec<bool> = space.mappings().iter().map(is_vdso).collect();
        assert_eq!(found, [true, false, false], "{PATH}");
    }
}
