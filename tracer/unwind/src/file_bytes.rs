//! The bytes of a file that somebody else may write: read by position, never mapped, and no more at once than the file can mean.
//!
//! A file that shrinks under us is an error, not a SIGBUS. A file may be longer than its disk space by holes, and its headers may point into
//! them: what is believed of a size goes by the space that the file really takes. Leaves out what the bytes mean (`elf.rs`).

use object::{ReadCache, ReadRef};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// Bytes of any file that are read at once, whatever space it takes.
const ALWAYS: u64 = 16 << 20;
/// File systems that compress show less space than there are bytes: so many times the space is believed.
const COMPRESSED: u64 = 8;
/// Bytes of one section that are read at the most: those of the largest libraries have a tenth.
const MOST: u64 = 1 << 30;

/// How many bytes a part of this file may have.
///
/// # Errors
/// When the system does not tell the file's size.
pub fn believable_bytes(file: &File) -> io::Result<u64> {
    let space = file.metadata()?.blocks().saturating_mul(512);
    Ok(space.saturating_mul(COMPRESSED).clamp(ALWAYS, MOST))
}

/// Reads a file from a place of its own: open files that several hold share one place.
#[derive(Clone, Copy, Debug)]
pub struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> Positioned<'a> {
    /// At the file's start.
    pub const fn new(file: &'a File) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

impl Seek for Positioned<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A file's bytes for a parser.
pub struct FileBytes<'a> {
    cache: ReadCache<Positioned<'a>>,
    most: u64,
    refused: Cell<bool>,
}

impl<'a> FileBytes<'a> {
    /// Reads nothing yet.
    ///
    /// # Errors
    /// When the system does not tell the file's size.
    pub fn new(file: &'a File) -> io::Result<Self> {
        let (cache, most) = (ReadCache::new(Positioned::new(file)), believable_bytes(file)?);
        Ok(Self { cache, most, refused: Cell::new(false) })
    }

    /// Whether a part was asked for that is larger than is believed.
    pub fn has_refused(&self) -> bool {
        self.refused.get()
    }
}

/// The `object` crate's view of it; an error is one without a reason there.
impl<'b> ReadRef<'b> for &'b FileBytes<'_> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'b [u8], ()> {
        if size > self.most {
            self.refused.set(true);
            return Err(());
        }
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'b [u8], ()> {
        (&self.cache).read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileBytes, Positioned, believable_bytes};
    use object::ReadRef as _;
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

    /// Of a file with a hole of terabytes no part may have more than a small one of its own; bytes that are there are read.
    #[test]
    fn holes_are_not_believed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head").unwrap();
        file.set_len(1 << 42).unwrap();
        assert!(believable_bytes(&file).unwrap() <= 16 << 20);
        let bytes = FileBytes::new(&file).unwrap();
        assert_eq!((&bytes).read_bytes_at(0, 4), Ok(&b"head"[..]));
        assert!(!bytes.has_refused());
        assert_eq!((&bytes).read_bytes_at(0, 8 << 30), Err(()));
        assert!(bytes.has_refused());
    }

    /// Two readers of one open file do not move each other; a file that shrinks ends early.
    #[test]
    fn places_of_their_own() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcdef").unwrap();
        let (mut one, mut other) = (Positioned::new(&file), Positioned::new(&file));
        let mut byte = [0];
        one.seek(SeekFrom::Start(3)).unwrap();
        other.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");
        one.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"d");
        file.set_len(2).unwrap();
        assert!(one.read_exact(&mut byte).is_err());
        assert!(one.seek(SeekFrom::Current(-100)).is_err());
    }
}
