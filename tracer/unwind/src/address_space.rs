//! The code mappings of a process, from `/proc/PID/maps`.
//!
//! Leaves out mappings without execute permission, but for the file behind each, whose identity they share.

use super::living::living_thread;
use energy_trace_model::ids::Pid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;

/// Bytes of `maps` that are read: more than 100,000 mappings, where the kernel allows 65,530 (vm.max_map_count).
const LONGEST_MAPS: u64 = 16 << 20;

/// Which file is mapped: device and inode name it while it is mapped, whatever its path says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileKey {
    /// Device, as `maps` prints it (`fe:00`).
    pub device: String,
    /// Inode.
    pub inode: u64,
}

/// A stretch of code in an address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address (AVMA).
    pub start: u64,
    /// First address behind it (AVMA).
    pub end: u64,
    /// Place of `start` in the file.
    pub offset: u64,
    /// The file; `None` for anonymous memory (JIT code) and the kernel's own pages.
    pub file: Option<FileKey>,
    /// Its path as the process sees it, `[vdso]`, or empty.
    pub path: String,
}

/// Code mappings in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSpace {
    mappings: Vec<Mapping>,
}

impl AddressSpace {
    /// Reads the mappings of a process.
    pub fn read(pid: Pid) -> std::io::Result<Self> {
        let maps = read_maps(pid)?;
        Ok(Self::parse(&String::from_utf8_lossy(&maps)))
    }

    /// Reads the mappings of a process, if one of them holds `address`.
    pub fn read_holding(pid: Pid, address: u64) -> Option<Self> {
        let maps = read_maps(pid).ok()?;
        let text = String::from_utf8_lossy(&maps);
        text.lines().filter_map(range).any(|(start, end)| start <= address && address < end).then_some(())?;
        Some(Self::parse(&text))
    }

    /// Parses the text of `maps` (Documentation/filesystems/proc.rst, v6.1); lines that are not of its form are passed over.
    pub fn parse(text: &str) -> Self {
        let mut mappings: Vec<Mapping> = text.lines().filter_map(parse_line).collect();
        mappings.sort_by_key(|m| m.start);
        Self { mappings }
    }

    /// The mappings.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The mapping that holds an address.
    pub fn find(&self, avma: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|m| m.start <= avma);
        self.mappings[..after].last().filter(|m| avma < m.end)
    }
}

/// The text of `maps`, as far as it is read.
fn read_maps(pid: Pid) -> std::io::Result<Vec<u8>> {
    let text = read_maps_of(pid);
    if text.as_ref().is_ok_and(|text| !text.is_empty()) {
        return text;
    }
    living_thread(pid).map_or(text, read_maps_of)
}

fn read_maps_of(pid: Pid) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/maps"))?.take(LONGEST_MAPS).read_to_end(&mut text)?;
    Ok(text)
}

/// First address of a line's mapping, and the first behind it.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    if !fields.next()?.contains('x') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(fields.next()?)?;
    let device = fields.next()?.to_owned();
    let inode: u64 = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or("").trim_start().trim_end_matches(" (deleted)").to_owned();
    let file = (inode != 0).then_some(FileKey { device, inode });
    Some(Mapping { start: hex(start)?, end: hex(end)?, offset, file, path })
}

/// How `maps` shows memory without a file of its own, apart from an empty path (`is_anon_memory`, tools/perf/util/map.c, v6.1).
const ANONYMOUS: [&str; 3] = ["//anon", "/dev/zero", "/anon_hugepage"];

impl Mapping {
    /// Whether it is memory without a file of its own: code in it was made at run time.
    pub fn is_anonymous(&self) -> bool {
        let nameless = self.file.is_none() && self.path.is_empty();
        nameless || ANONYMOUS.iter().any(|path| self.path.starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use super::AddressSpace;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1234                       /usr/bin/my program
55d0c0001000-55d0c0005000 r-xp 00001000 fe:00 1234                       /usr/bin/my program
7f0000000000-7f0000010000 rwxp 00000000 00:00 0 
7f0000100000-7f0000110000 r-xp 00002000 fe:00 99                         /tmp/gone.so (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
garbage
";

    /// Code mappings only, with spaces in paths, deleted files and anonymous code.
    #[test]
    fn parses_code_mappings() {
        let space = AddressSpace::parse(MAPS);
        let paths: Vec<_> = space.mappings().iter().map(|m| m.path.as_str()).collect();
        assert_eq!(paths, ["/usr/bin/my program", "", "/tmp/gone.so", "[vdso]"]);
        assert_eq!(space.mappings()[0].offset, 0x1000);
        let anonymous: Vec<bool> = space.mappings().iter().map(super::Mapping::is_anonymous).collect();
        assert_eq!(anonymous, [false, true, false, false]);
        assert!(
            AddressSpace::parse("1000-2000 rwxs 0 00:01 17 /dev/zero (deleted)").mappings()[0].is_anonymous()
        );
    }

    /// An address belongs to the mapping that holds it, and to none between two.
    #[test]
    fn finds_addresses() {
        let space = AddressSpace::parse(MAPS);
        assert_eq!(space.find(0x7f00_0010_0fff).unwrap().path, "/tmp/gone.so");
        assert!(space.find(0x7f00_0001_0000).is_none());
        assert!(space.find(0).is_none());
    }
}
