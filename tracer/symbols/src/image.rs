//! A copy of those parts of an ELF file that names are in, in a file of this process's own.
//!
//! The symbol library maps what it reads, and a mapped file that somebody cuts short is a SIGBUS; it opens it by a path, too, which a process
//! without a file system has for its own files in memory alone. Parts keep their places, so that headers stay true; between them are holes. Symbols
//! that are no names are left out of the copy, and so are packed ones (`packed_symbols.rs`). Leaves out what the parts mean.

use energy_trace_unwind::elf::{ElfError, find_packed_symbols, marks, name_parts};
use energy_trace_unwind::file_bytes::Positioned;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Bytes that are copied at once.
const BLOCK: usize = 256 << 10;

/// Copies what symbols are found by, and with `debug_info` what source lines are found by.
///
/// # Errors
/// When the file cannot be read, is no ELF file, or is smaller than its headers say.
pub(super) fn image_of(file: &File, debug_info: bool) -> Result<File, ElfError> {
    let parts = name_parts(file, debug_info)?;
    let image = File::from(memfd_create("symbols", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?);
    let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
    image.set_len(end)?;
    for part in parts {
        copy(file, &image, part)?;
    }
    // Files of 32 bits have no marks that are looked for.
    for mark in marks(file).unwrap_or_default() {
        image.write_all_at(&NOWHERE, mark + PLACE)?;
    }
    // The symbol library has no name for anything in a file whose packed symbols it cannot unpack.
    if let Ok(Some(header)) = find_packed_symbols(file) {
        image.write_all_at(&NO_NAME, header)?;
    }
    Ok(image)
}

/// Where an entry of a symbol table says in which section its symbol is, and what it says of one that is elsewhere (`Elf64_Sym`, `SHN_UNDEF`).
const PLACE: u64 = 6;
const NOWHERE: [u8; 2] = [0; 2];

/// What a section's header begins with, of a section without a name (`sh_name`).
const NO_NAME: [u8; 4] = [0; 4];

fn copy(from: &File, to: &File, part: Range<u64>) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut source = Positioned::new(from);
    source.seek(SeekFrom::Start(part.start))?;
    let mut at = part.start;
    while at < part.end {
        let bytes = usize::try_from(part.end - at).unwrap_or(BLOCK).min(BLOCK);
        let Some(block) = block.get_mut(..bytes) else { break };
        source.read_exact(block)?;
        to.write_all_at(block, at)?;
        at += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::image_of;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    /// The copy has the file's header and symbols at their places and takes little more room than they do; a file that is cut is an error.
    #[test]
    fn copies_what_names_need() {
        let file = File::open("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
        let image = image_of(&file, false).unwrap();
        let mut heads = [[0; 64]; 2];
        for (head, of) in heads.iter_mut().zip([&file, &image]) {
            of.read_exact_at(head, 0).unwrap();
        }
        assert_eq!(heads[0], heads[1]);
        let taken = |file: &File| std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert!(taken(&image) < taken(&file) / 2);
        assert!(image_of(&File::open("/etc/passwd").unwrap(), false).is_err());
        let mut cut = std::fs::read("/lib/x86_64-linux-gnu/libm.so.6").unwrap();
        cut.truncate(cut.len() / 2);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut");
        std::fs::write(&path, cut).unwrap();
        assert!(image_of(&File::open(path).unwrap(), false).is_err());
    }
}
