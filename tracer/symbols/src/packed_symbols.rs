//! Symbols that a stripped library carries packed in itself: an ELF file as xz, in `.gnu_debugdata` (GDB manual, "Debugging information in a
//! special section"). Fedora, RHEL and SUSE build their packages so.
//!
//! Leaves out what is in it (`places.rs`), and what it was packed with but LZMA2, which is all that these systems use.

use energy_trace_unwind::elf::read_packed_symbols;
use lzma_rust2::XzReader;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read};

/// Bytes that are unpacked: those of the largest libraries have half. A few bytes can say that they are any number, and each question of names
/// unpacks them anew.
const MOST: u64 = 32 << 20;
/// Memory for what was unpacked last, in KiB: twice that of `xz -9`.
const MOST_MEMORY_KIB: u32 = 128 << 10;

/// The file with the symbols; `None` where the library carries none, or more than is unpacked.
pub(super) fn unpack_symbols(file: &File) -> Option<File> {
    let packed = read_packed_symbols(file).ok()??;
    unpack(&packed, MOST).inspect_err(|error| log::debug!("no packed symbols: {error}")).ok()
}

fn unpack(packed: &[u8], most: u64) -> io::Result<File> {
    let mut unpacked = File::from(memfd_create("packed symbols", MFdFlags::MFD_CLOEXEC)?);
    let mut reader = XzReader::new_mem_limit(packed, false, MOST_MEMORY_KIB).take(most + 1);
    if io::copy(&mut reader, &mut unpacked)? > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::unpack;
    use std::process::Command;

    /// What is longer than it may be, wants too much memory, or is damaged is an error; no more is written than may be.
    #[test]
    fn limits() {
        let packed = |how: &str| {
            let zeros = format!("head -c 100000 /dev/zero | xz {how}");
            Command::new("sh").args(["-c", &zeros]).output().unwrap().stdout
        };
        let zeros = packed("");
        assert!(zeros.len() < 1000);
        assert_eq!(unpack(&zeros, 100_000).unwrap().metadata().unwrap().len(), 100_000);
        assert!(unpack(&zeros, 99_999).is_err());
        assert!(unpack(&packed("--lzma2=dict=1GiB"), 100_000).is_err());
        assert!(unpack(&zeros[..zeros.len() / 2], 100_000).is_err());
        assert!(unpack(b"text", 100_000).is_err());
    }
}
