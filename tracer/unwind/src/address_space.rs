//! The code mappings of a process, from `/proc/PID/maps`.
//!
//! Leaves out mappings without execute permission, but for the files behind them: memory between two parts of one file is that file's code.

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
        let mut lines: Vec<Line> = text.lines().filter_map(parse_line).collect();
        lines.sort_by_key(|line| line.mapping.start);
        find_moved_code(&mut lines);
        Self { mappings: lines.into_iter().filter(|line| line.is_code).map(|line| line.mapping).collect() }
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

/// First addresses of a process's mappings whose names begin so, be they code or not.
pub fn named_memory(pid: Pid, names: &[&str]) -> std::io::Result<Vec<u64>> {
    let maps = read_maps(pid)?;
    let text = String::from_utf8_lossy(&maps);
    let lines = text.lines().filter_map(parse_line).map(|line| line.mapping);
    let named = lines.filter(|mapping| names.iter().any(|name| mapping.path.starts_with(name)));
    Ok(named.map(|mapping| mapping.start).collect())
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

/// A line of `maps`.
struct Line {
    mapping: Mapping,
    is_code: bool,
}

fn parse_line(line: &str) -> Option<Line> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.contains('x');
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(fields.next()?)?;
    let device = fields.next()?.to_owned();
    let inode: u64 = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or("").trim_start().trim_end_matches(" (deleted)").to_owned();
    let file = (inode != 0).then_some(FileKey { device, inode });
    Some(Line { mapping: Mapping { start: hex(start)?, end: hex(end)?, offset, file, path }, is_code })
}

/// Gives code that was moved to anonymous memory, for larger pages, back to its file: programs do it to themselves (intel/iodlr, BOLT's
/// `--hugify`, Node's `--use-largepages`). It lies without a gap between two parts of one file that are as far apart as in the file.
fn find_moved_code(lines: &mut [Line]) {
    let mut from = 0;
    while from < lines.len() {
        let memory = lines[from..].iter().take_while(|line| line.mapping.is_anonymous()).count();
        let to = from + memory;
        if memory > 0
            && let Some(before) =
                from.checked_sub(1).and_then(|at| lines.get(at)).map(|line| line.mapping.clone())
            && lines.get(to).is_some_and(|after| is_one_file(&before, &lines[from..to], &after.mapping))
        {
            for line in &mut lines[from..to] {
                let offset = before.offset + (line.mapping.start - before.start);
                line.mapping =
                    Mapping { start: line.mapping.start, end: line.mapping.end, offset, ..before.clone() };
            }
        }
        from = to.max(from + 1);
    }
}

/// Whether memory fills the place between two parts of one file.
fn is_one_file(before: &Mapping, memory: &[Line], after: &Mapping) -> bool {
    let ends = std::iter::once(before.end).chain(memory.iter().map(|line| line.mapping.end));
    let starts = memory.iter().map(|line| line.mapping.start).chain([after.start]);
    before.file.is_some()
        && before.file == after.file
        && after.start - before.start == after.offset.wrapping_sub(before.offset)
        && ends.eq(starts)
}

/// How the path of memory begins that is no file of anybody, though some of it has an inode: shared memory (`is_anon_memory`,
/// tools/perf/util/map.c, v6.1; `shm_mmap`, ipc/shm.c; `madvise_set_anon_name`, mm/madvise.c).
const ANONYMOUS: [&str; 5] = ["//anon", "/dev/zero", "/anon_hugepage", "/SYSV", "[anon_shmem:"];
/// The kernel's own pages.
const KERNELS: [&str; 3] = ["[vdso]", "[vsyscall]", "[uprobes]"];
/// Files that are only memory: a program may load a library from there, or put code there that it makes.
const MEMORY_FILES: [&str; 2] = ["/memfd:", "/dev/shm/"];

impl Mapping {
    /// Whether it is memory without a file of its own, whatever name the process gave it: code in it was made at run time.
    pub fn is_anonymous(&self) -> bool {
        let fileless = self.file.is_none() && !KERNELS.contains(&self.path.as_str());
        fileless || ANONYMOUS.iter().any(|path| self.path.starts_with(path))
    }

    /// Whether it is a file that is only memory.
    pub fn is_memory_file(&self) -> bool {
        MEMORY_FILES.iter().any(|path| self.path.starts_with(path))
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
    }

    /// Memory is anonymous under any name that a process gives it, and as shared memory; files and the kernel's own pages are not.
    #[test]
    fn memory_by_its_name() {
        let is_anonymous = |rest: &str| {
            AddressSpace::parse(&format!("1000-2000 rwxs 00000000 {rest}")).mappings()[0].is_anonymous()
        };
        for memory in [
            "00:00 0 ",
            "00:00 0 [anon:js-executable-memory]",
            "00:01 17 [anon_shmem:jit]",
            "00:00 0 [heap]",
            "00:01 17 /dev/zero (deleted)",
            "00:01 3 /SYSV00000000 (deleted)",
            "00:0f 9 /anon_hugepage (deleted)",
        ] {
            assert!(is_anonymous(memory), "{memory}");
        }
        for other in [
            "fe:00 7 /lib/l.so",
            "00:01 5 /memfd:doublemapper (deleted)",
            "00:00 0 [vdso]",
            "00:00 0 [uprobes]",
        ] {
            assert!(!is_anonymous(other), "{other}");
        }
    }

    /// Code that was moved to anonymous memory keeps its file, by its neighbours: in one piece or more, also where they are no code. Memory
    /// beside a file, with a gap, between two files, or where the file's parts do not fit is not the file's.
    #[test]
    fn moved_code_keeps_its_file() {
        let offsets = |text: &str| {
            let space = AddressSpace::parse(text);
            let code = space.mappings().iter();
            code.map(|m| m.file.as_ref().map(|_| m.offset)).collect::<Vec<Option<u64>>>()
        };
        let head = "400000-401000 r--p 00000000 fe:00 7 /bin/a\n401000-402000 r-xp 00001000 fe:00 7 /bin/a\n";
        let moved = "402000-600000 r-xp 00000000 00:00 0 \n600000-800000 rwxp 00000000 00:00 0 [anon:text]\n";
        let tail = "800000-801000 r-xp 00400000 fe:00 7 /bin/a\n";
        let whole = format!("{head}{moved}{tail}");
        assert_eq!(offsets(&whole), [Some(0x1000), Some(0x2000), Some(0x20_0000), Some(0x40_0000)]);
        let all_of_it =
            whole.replace("r-xp 00001000", "r--p 00001000").replace("r-xp 00400000", "r--p 00400000");
        assert_eq!(offsets(&all_of_it), [Some(0x2000), Some(0x20_0000)]);
        for (from, to) in [
            ("800000-801000", "801000-802000"),
            ("00400000 fe:00 7", "00500000 fe:00 7"),
            ("00400000 fe:00 7", "00400000 fe:00 8"),
            ("402000-600000", "403000-600000"),
        ] {
            let other = whole.replace(from, to);
            assert_eq!(offsets(&other)[1..3], [None, None], "{other}");
        }
        assert_eq!(offsets(&format!("{head}{moved}"))[1..], [None, None]);
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
