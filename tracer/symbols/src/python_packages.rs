//! What the metadata of installed packages says: which names are imported from the folder or archive that it lies in.
//!
//! `RECORD` of a wheel lists its files (PyPA, "Recording installed projects"), and so does `installed-files.txt` of older installers. Both and
//! archives may be anybody's: sizes are limited, and nothing is believed but names. Leaves out archives of more than 65,534 files (ZIP64).

use energy_trace_unwind::file_bytes::Positioned;
use flate2::read::DeflateDecoder;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

/// Bytes of one list of files, and of an archive's directory, that are looked at.
const LONGEST_LIST: u64 = 16 << 20;
/// Lists of an archive, and names of a folder or archive, at the most.
const MOST_LISTS: usize = 500;
const MOST_NAMES: usize = 5_000;
/// Parts of an archive (APPNOTE.TXT of PKWARE, 4.3): the first bytes of its end, of an entry of its directory and of a file, and bytes of each.
const END: &[u8] = b"PK\x05\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const FILE_BYTES: usize = 30;
/// A comment behind an archive's end has this many bytes at the most.
const LONGEST_COMMENT: u64 = 0xffff;

/// The names that are imported of what a list of files names.
///
/// # Errors
/// When the system cannot read the file.
pub fn read_list(file: impl Read) -> io::Result<BTreeSet<String>> {
    let mut bytes = Vec::new();
    file.take(LONGEST_LIST).read_to_end(&mut bytes)?;
    let names =
        bytes.split(|&byte| byte == b'\n').filter_map(|line| imported(std::str::from_utf8(line).ok()?));
    let mut all = BTreeSet::new();
    for name in names {
        if !all.contains(name) && all.len() < MOST_NAMES {
            all.insert(name.to_owned());
        }
    }
    Ok(all)
}

/// What is imported by a file's line: `yaml` by `yaml/loader.py,sha256=…`; nothing by metadata, programs and what lies elsewhere.
fn imported(line: &str) -> Option<&str> {
    let path = line.trim().trim_start_matches('"');
    // Older lists begin in the metadata's own folder.
    let path = path.strip_prefix("../").unwrap_or(path);
    let path = path.split([',', '"']).next().unwrap_or(path);
    let (first, rest) = path.split_once(['/', '\\']).unwrap_or((path, ""));
    let (name, ending) = first.split_once('.').unwrap_or((first, ""));
    let is_code = match rest {
        "" => [".py", ".so", ".pyd"].iter().any(|ending| first.ends_with(ending)),
        _ => matches!(ending, "" | "libs") && !matches!(name, "bin" | "__pycache__"),
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_code && is_name).then_some(name)
}

/// The names that are imported from a folder of an archive, empty for all of it, by the metadata of what is installed there.
///
/// # Errors
/// When it is no archive, or the system cannot read it.
pub fn read_archive(file: &File, folder: &str) -> io::Result<BTreeSet<String>> {
    let archive = Archive::open(file)?;
    let mut all = BTreeSet::new();
    for list in archive.entries().filter(|entry| entry.is_list(folder)).take(MOST_LISTS) {
        all.extend(read_list(archive.read(&list)?)?);
        if all.len() > MOST_NAMES {
            break;
        }
    }
    Ok(all)
}

/// An archive's directory. What stands in front of an archive, as the line of an interpreter, moves all of it.
struct Archive<'a> {
    file: &'a File,
    directory: Vec<u8>,
    moved: u64,
}

/// A file in an archive.
struct Entry<'a> {
    name: &'a str,
    is_packed: bool,
    bytes: u64,
    at: u64,
}

impl<'a> Archive<'a> {
    fn open(file: &'a File) -> io::Result<Self> {
        let length = file.metadata()?.size();
        let from = length.saturating_sub(LONGEST_COMMENT + END_BYTES as u64);
        let tail = read_at(file, from, length - from)?;
        let at = tail.windows(END.len()).rposition(|window| window == END).ok_or_else(damaged)?;
        let end = tail.get(at..at + END_BYTES).ok_or_else(damaged)?;
        let (bytes, offset) = (number(end, 12, 4), number(end, 16, 4));
        let begin = (from + at as u64).checked_sub(bytes).ok_or_else(damaged)?;
        let moved = begin.checked_sub(offset).ok_or_else(damaged)?;
        Ok(Self { file, directory: read_at(file, begin, bytes)?, moved })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = self.directory.as_slice();
        std::iter::from_fn(move || {
            let head = rest.get(..ENTRY_BYTES).filter(|head| head.starts_with(ENTRY))?;
            let [name, extra, comment] = [28, 30, 32].map(|at| number(head, at, 2) as usize);
            let bytes = rest.get(ENTRY_BYTES..ENTRY_BYTES + name)?;
            rest = rest.get(ENTRY_BYTES + name + extra + comment..)?;
            let name = std::str::from_utf8(bytes).unwrap_or_default();
            let (is_packed, bytes, at) = (number(head, 10, 2) == 8, number(head, 20, 4), number(head, 42, 4));
            Some(Entry { name, is_packed, bytes, at })
        })
    }

    /// The bytes of a file, unpacked.
    fn read(&self, entry: &Entry<'_>) -> io::Result<Box<dyn Read + '_>> {
        let at = self.moved.checked_add(entry.at).ok_or_else(damaged)?;
        let head = read_at(self.file, at, FILE_BYTES as u64)?;
        let names = number(&head, 26, 2) + number(&head, 28, 2);
        let mut bytes = Positioned::new(self.file);
        bytes.seek(SeekFrom::Start(at.saturating_add(FILE_BYTES as u64 + names)))?;
        let bytes = bytes.take(entry.bytes);
        Ok(if entry.is_packed { Box::new(DeflateDecoder::new(bytes)) } else { Box::new(bytes) })
    }
}

impl Entry<'_> {
    /// Whether it is the list of files of something that is installed in this folder.
    fn is_list(&self, folder: &str) -> bool {
        let below = self.name.strip_prefix(folder).and_then(|below| below.strip_suffix("/RECORD"));
        below.is_some_and(|metadata| metadata.ends_with(".dist-info") && !metadata.contains('/'))
    }
}

/// Bytes of a file from a place on, where it has them.
fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > LONGEST_LIST {
        return Err(damaged());
    }
    let mut read = Vec::new();
    let mut from = Positioned::new(file);
    from.seek(SeekFrom::Start(at))?;
    from.take(bytes).read_to_end(&mut read)?;
    if read.len() as u64 == bytes { Ok(read) } else { Err(damaged()) }
}

/// A number of up to eight bytes; 0 where they are not there.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at + size).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no archive, or a damaged one")
}

#[cfg(test)]
mod tests {
    use super::{read_archive, read_list};
    use std::io::Write as _;

    const RECORD: &str = "../../bin/tool,,\nyaml/__init__.py,sha256=x,1\nyaml/loader.py,,\n_yaml.cpython-312-x86_64-linux-gnu.so,,\n\
                          six.py,,\nyaml.libs/libx.so,,\nPyYAML-6.0.dist-info/RECORD,,\n__pycache__/six.cpython-312.pyc,,\nLICENSE,,\n\
                          bin/run.py,,\n\"odd,name/x.py\",,\n";

    /// Names of packages, modules, extensions and bundled libraries; no programs, no metadata, nothing outside.
    #[test]
    fn names_of_a_list() {
        let names = |text: &str| read_list(text.as_bytes()).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(names(RECORD), ["_yaml", "six", "yaml"]);
        assert_eq!(names("../yaml/__init__.py\n../../../bin/x\nPKG-INFO\n"), ["yaml"]);
        assert_eq!(names("\u{0}\n,,\n../../x/y.py"), [""; 0]);
    }

    /// An archive with these files, some bytes in front, and unpacked or not.
    fn archive(files: &[(&str, &str)], is_packed: bool) -> std::fs::File {
        let mut bytes = b"#!/usr/bin/env python3\n".to_vec();
        let (moved, mut directory) = (bytes.len(), Vec::new());
        for (name, text) in files {
            let at = (bytes.len() - moved) as u32;
            let mut packed = text.as_bytes().to_vec();
            if is_packed {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&packed).unwrap();
                packed = encoder.finish().unwrap();
            }
            let sizes = [packed.len() as u32, text.len() as u32].map(u32::to_le_bytes).concat();
            let method = u16::from(is_packed) * 8;
            let name_bytes = (name.len() as u16).to_le_bytes();
            let head = [&[20, 0, 0, 0][..], &method.to_le_bytes(), &[0; 8], &sizes, &name_bytes].concat();
            bytes.extend([b"PK\x03\x04", &head[..], &[0, 0], name.as_bytes(), &packed].concat());
            let places = [&[0; 12][..], &at.to_le_bytes()].concat();
            directory.extend([b"PK\x01\x02\x14\x00", &head[..], &places, name.as_bytes()].concat());
        }
        let sizes = [directory.len() as u32, (bytes.len() - moved) as u32].map(u32::to_le_bytes).concat();
        bytes.extend([&directory[..], b"PK\x05\x06", &[0; 8], &sizes, &[0; 2]].concat());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file
    }

    /// What is installed in an archive, and in a folder of it; an archive of the program's own modules has nothing.
    #[test]
    fn names_of_an_archive() {
        let files = [
            ("PyYAML-6.0.dist-info/RECORD", RECORD),
            ("lib/six.dist-info/RECORD", "six.py,,\n"),
            ("a.py", ""),
        ];
        for is_packed in [true, false] {
            let archive = archive(&files, is_packed);
            let names = |folder| read_archive(&archive, folder).unwrap().into_iter().collect::<Vec<_>>();
            assert_eq!(names(""), ["_yaml", "six", "yaml"]);
            assert_eq!(names("lib/"), ["six"]);
            assert_eq!(names("other/"), [""; 0]);
        }
    }

    /// Archives that are cut or lie say nothing, and no panic.
    #[test]
    fn damaged_archives() {
        use std::os::unix::fs::FileExt as _;
        let whole = archive(&[("a.dist-info/RECORD", RECORD)], true);
        let length = whole.metadata().unwrap().len();
        for at in 0..length {
            for byte in [0, 0xff] {
                let damaged = archive(&[("a.dist-info/RECORD", RECORD)], true);
                damaged.write_at(&[byte], at).unwrap();
                let _ = read_archive(&damaged, "");
            }
            let cut = archive(&[("a.dist-info/RECORD", RECORD)], true);
            cut.set_len(at).unwrap();
            assert!(read_archive(&cut, "").is_err());
        }
    }
}
