//! What unwinding needs of an ELF file: its code segments, its build id, its symbols by name, its `.eh_frame`.
//!
//! Belongs to the resolver, but for the types: whoever has privileges does not parse what others can write. Leaves out how the bytes are
//! read (`file_bytes.rs`).

use super::arch::MARKING_MACHINE;
use super::context_variable::ContextVariable;
use super::file_bytes::{FileBytes, believable_bytes};
use super::hotspot::{self, Export};
use energy_trace_model::ids::BuildId;
use object::elf::{FileHeader64, Sym64};
use object::read::elf::{
    Dyn as _, ElfFile, ElfFile32, ElfFile64, FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _,
    SymbolTable,
};
use object::{Endianness, FileKind, Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tracer_ebpf::arch::kernel::PAGE;

/// Why a file is of no use for unwinding.
#[derive(Debug, Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It does not begin as an ELF file does.
    #[error("it is no ELF file")]
    Other,
    /// It is not a 64-bit ELF file, or a damaged one.
    #[error("it is not a usable ELF file: {0}")]
    Damaged(String),
    /// Its headers speak of parts that are far larger than the space that it takes on the disk.
    #[error("its headers say that it is far larger than it is")]
    TooLarge,
}

/// A segment that is loaded as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSegment {
    /// Its address in the file's own numbering (SVMA).
    pub svma: u64,
    /// Its place in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
}

/// Segments with code that are looked at: linkers make a few.
const MOST_CODE_SEGMENTS: usize = 256;

/// `.eh_frame` and where it is.
#[derive(Clone, Debug)]
pub struct EhFrame {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its address (SVMA).
    pub svma: u64,
}

/// The facts of one ELF file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ElfFacts {
    /// Lowest loaded address, rounded down to a page (SVMA).
    pub base: u64,
    /// Where the kernel begins to run it (SVMA); 0 for most libraries.
    pub entry: u64,
    /// Segments with code.
    pub code: Vec<CodeSegment>,
    /// Its build id.
    pub build_id: Option<BuildId>,
    /// Symbols that were asked for, and their `.cold` parts, which compilers put elsewhere: name, address (SVMA), size.
    pub symbols: Vec<(String, u64, u64)>,
    /// Bytes of a program's own thread-local variables, whose place by the thread pointer is fixed (ELF Handling For Thread-Local
    /// Storage); 0 in a library, whose place is not.
    pub tls_block: u64,
    /// The `.PyRuntime` section's address (SVMA): CPython 3.10 and later keep it even when stripped.
    pub py_runtime: Option<u64>,
    /// What a HotSpot exports of itself, where its table was asked for.
    pub hotspot: Vec<Export>,
    /// The thread-local variable by which it publishes the span that a thread works for.
    pub context: Option<ContextVariable>,
}

impl ElfFacts {
    /// Reads a file and looks for the named symbols, in `.dynsym` first.
    pub fn read(file: &File, wanted: &[&str]) -> Result<Self, ElfError> {
        with_either(file, |elf| Ok(Self::of(elf, wanted)), |elf| Ok(Self::of_headers(elf)))
    }

    /// The same of a file that is being read.
    pub(super) fn of(elf: &Elf<'_>, wanted: &[&str]) -> Self {
        let symbols = find_symbols(elf, wanted);
        let table = symbols.iter().find(|(name, ..)| name == hotspot::TABLE);
        let hotspot = table.map(|&(_, table, _)| hotspot::read_exports(elf, table)).unwrap_or_default();
        Self { symbols, hotspot, context: ContextVariable::find(elf), ..Self::of_headers(elf) }
    }

    /// What its headers say.
    fn of_headers<'a, Header: FileHeader<Endian = Endianness>>(
        elf: &ElfFile<'a, Header, &'a FileBytes<'a>>,
    ) -> Self {
        let endian = ENDIAN;
        let mut base = u64::MAX;
        let mut code = Vec::new();
        let (mut is_program, mut tls) = (false, 0u64);
        for header in elf.elf_program_headers() {
            match header.p_type(endian) {
                object::elf::PT_LOAD => (),
                object::elf::PT_INTERP => {
                    is_program = true;
                    continue;
                }
                object::elf::PT_TLS => {
                    let (bytes, align): (u64, u64) =
                        (header.p_memsz(endian).into(), header.p_align(endian).into());
                    tls = bytes.checked_next_multiple_of(align.max(1)).unwrap_or(0);
                    continue;
                }
                _ => continue,
            }
            let svma: u64 = header.p_vaddr(endian).into();
            base = base.min(svma & !(PAGE - 1));
            if header.p_flags(endian) & object::elf::PF_X != 0 && code.len() < MOST_CODE_SEGMENTS {
                code.push(CodeSegment {
                    svma,
                    offset: header.p_offset(endian).into(),
                    size: header.p_filesz(endian).into(),
                });
            }
        }
        Self {
            base,
            entry: elf.elf_header().e_entry(endian).into(),
            code,
            build_id: elf.build_id().ok().flatten().map(|id| BuildId::from_bytes(id.to_vec())),
            symbols: Vec::new(),
            py_runtime: elf.section_by_name(".PyRuntime").map(|s| s.address()),
            hotspot: Vec::new(),
            context: None,
            tls_block: if is_program { tls } else { 0 },
        }
    }

    /// What to subtract from an address in a mapping of this file to get the file's own address (SVMA).
    ///
    /// From the code segment that covers the mapping: in files that were patched (auditwheel) another segment may cover the same page of
    /// the file at another address, and a bias from that one makes garbage of every stack.
    pub fn bias(&self, mapping_start: u64, mapping_offset: u64) -> Option<u64> {
        self.bias_by_pages(page_bytes(), mapping_start, mapping_offset)
    }

    /// The same where pages have so many bytes. Of two code segments in a page the later one begins a mapping there, the earlier one below.
    fn bias_by_pages(&self, page: u64, mapping_start: u64, mapping_offset: u64) -> Option<u64> {
        let mapped_from = |s: &&CodeSegment| s.offset & !(page - 1);
        let covers = |s: &&CodeSegment| {
            mapped_from(s) <= mapping_offset && mapping_offset < s.offset.saturating_add(s.size)
        };
        let segment = self.code.iter().filter(covers).max_by_key(mapped_from)?;
        let svma = segment.svma.wrapping_sub(segment.offset).wrapping_add(mapping_offset);
        Some(mapping_start.wrapping_sub(svma))
    }

    /// Whether any of this part of the file is code: a mapping may begin before it, as where all that is readable may be executed.
    pub fn has_code_in(&self, offset: u64, length: u64) -> bool {
        let end = offset.saturating_add(length);
        self.code.iter().any(|part| part.offset < end && offset < part.offset.saturating_add(part.size))
    }

    /// Place in the file of an address (SVMA) in its code.
    pub fn file_offset(&self, svma: u64) -> Option<u64> {
        let segment = self.code.iter().find(|s| s.svma <= svma && svma - s.svma < s.size)?;
        (svma - segment.svma).checked_add(segment.offset)
    }

    /// Address (SVMA) of a place in its code: the inverse of `file_offset`.
    pub fn svma(&self, offset: u64) -> Option<u64> {
        let segment = self.code.iter().find(|s| s.offset <= offset && offset - s.offset < s.size)?;
        (offset - segment.offset).checked_add(segment.svma)
    }

    /// Address (SVMA) of a symbol that was asked for.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|(n, ..)| n == name).map(|&(_, svma, _)| svma)
    }
}

/// Reads `.eh_frame`; `None` where the file has none.
pub fn read_eh_frame(file: &File) -> Result<Option<EhFrame>, ElfError> {
    with_elf(file, |elf| {
        let Some(section) = elf.section_by_name(".eh_frame") else { return Ok(None) };
        Ok(Some(EhFrame { data: section.uncompressed_data()?.into_owned(), svma: section.address() }))
    })
}

/// Functions of the full symbol table (SVMA) that have a size, but for parts that compilers put elsewhere; none where the table was stripped.
pub(super) fn code_symbols(elf: &Elf<'_>) -> Vec<Range<u64>> {
    let symbols = named_symbols_of(elf, elf.elf_symbol_table());
    let functions = symbols.filter(|symbol| symbol.is_code && !symbol.name.contains(".cold"));
    let ranges =
        functions.filter_map(|symbol| Some(symbol.address..symbol.address.checked_add(symbol.size)?));
    ranges.filter(|range| !range.is_empty()).collect()
}

/// Places in a file of those entries of its symbol table that are marks and no names, where its processor has them.
///
/// # Errors
/// Where it cannot be read, or is no ELF file of 64 bits.
pub fn marks(file: &File) -> Result<Vec<u64>, ElfError> {
    // Where the header has its machine (`e_machine`). Symbols of others are not read.
    const MACHINE: u64 = 18;
    let mut machine = [0; 2];
    file.read_exact_at(&mut machine, MACHINE)?;
    if u16::from_le_bytes(machine) != MARKING_MACHINE {
        return Ok(Vec::new());
    }
    with_elf(file, |elf| {
        let table = elf.elf_symbol_table();
        let section = elf.elf_section_table().section(table.section()).ok().filter(|_| !table.is_empty());
        let Some(section) = section else { return Ok(Vec::new()) };
        let start = section.sh_offset(ENDIAN);
        let entries = (start..).step_by(size_of::<Sym64<Endianness>>()).zip(table.iter());
        let strings = strings_of(elf, table);
        let is_mark = |symbol: &Sym64<Endianness>| {
            let name = || name_at(strings, symbol.st_name(ENDIAN));
            let is_plain = symbol.st_type() == object::elf::STT_NOTYPE;
            let rest = if is_plain { name().and_then(|name| name.strip_prefix(['$'])) } else { None };
            rest.is_some_and(|rest| matches!(rest.split('.').next(), Some("x" | "d")))
        };
        Ok(entries.filter(|(_, symbol)| is_mark(symbol)).map(|(at, _)| at).collect())
    })
}

/// Where functions begin that other files may call (SVMA).
pub(super) fn exported_code(elf: &Elf<'_>) -> Vec<u64> {
    let symbols = named_symbols_of(elf, elf.elf_dynamic_symbol_table());
    symbols.filter(|symbol| symbol.is_code).map(|symbol| symbol.address).collect()
}

/// Where a section lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its place in the file.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Its address (SVMA).
    pub svma: u64,
}

/// Where `.eh_frame` and `.eh_frame_hdr` lie; `None` where the file has none.
pub(super) fn find_unwind_sections(elf: &Elf<'_>) -> [Option<Place>; 2] {
    [".eh_frame", ".eh_frame_hdr"].map(|name| {
        let section = elf.section_by_name(name)?;
        let (offset, size) = section.file_range()?;
        Some(Place { offset, size, svma: section.address() })
    })
}

/// What a file says of the libraries that it is linked with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Their names.
    pub needed: Vec<String>,
    /// Where to look for them, as lists of folders (`DT_RUNPATH`, `DT_RPATH`).
    pub search: Vec<String>,
}

/// Reads what a file is linked with.
pub fn read_linked(file: &File) -> Result<Linked, ElfError> {
    with_elf(file, |elf| {
        let endian = ENDIAN;
        let sections = elf.elf_section_table();
        let mut linked = Linked::default();
        let Some((entries, strings)) = sections.dynamic(endian, elf.data())? else {
            return Ok(linked);
        };
        let strings = sections.strings(endian, elf.data(), strings)?;
        for entry in entries {
            let list = match entry.d_tag(endian) {
                object::elf::DT_NEEDED => &mut linked.needed,
                object::elf::DT_RUNPATH | object::elf::DT_RPATH => &mut linked.search,
                _ => continue,
            };
            let text = entry.string(endian, strings)?;
            list.push(String::from_utf8_lossy(text).into_owned());
        }
        Ok(linked)
    })
}

/// What a file says about names: which of them it has itself, and where else they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugSections {
    /// It has a full symbol table, not only that of the dynamic linker.
    pub symtab: bool,
    /// It has debug information (DWARF).
    pub debug_info: bool,
    /// Name and CRC-32 of the file that debug information was put into (`.gnu_debuglink`).
    pub link: Option<(String, u32)>,
}

impl DebugSections {
    /// Reads the file's sections.
    pub fn read(file: &File) -> Result<Self, ElfError> {
        with_either(file, |elf| Ok(Self::of(elf)), |elf| Ok(Self::of(elf)))
    }

    fn of<'a>(elf: &impl object::Object<'a>) -> Self {
        let has = |name: &str| elf.section_by_name(name).is_some_and(|section| section.size() > 0);
        let link = elf.gnu_debuglink().ok().flatten();
        let link = link.map(|(name, crc)| (String::from_utf8_lossy(name).into_owned(), crc));
        Self { symtab: has(".symtab"), debug_info: has(".debug_info"), link }
    }
}

/// Where a stripped file carries packed symbols.
const PACKED_SYMBOLS: &str = ".gnu_debugdata";

/// Where the header of the section with packed symbols is in a file; `None` where it has none.
///
/// # Errors
/// Where it cannot be read, or is no ELF file of 64 bits.
pub fn find_packed_symbols(file: &File) -> Result<Option<u64>, ElfError> {
    with_elf(file, |elf| {
        let Some(section) = elf.section_by_name(PACKED_SYMBOLS) else { return Ok(None) };
        let header = elf.elf_header();
        let before = u64::from(header.e_shentsize(ENDIAN)).checked_mul(section.index().0 as u64);
        Ok(before.and_then(|before| header.e_shoff(ENDIAN).checked_add(before)))
    })
}

/// The symbols that a stripped file carries packed, as they stand there; `None` where it has none.
///
/// # Errors
/// Where it cannot be read, or is no ELF file of 64 bits.
pub fn read_packed_symbols(file: &File) -> Result<Option<Vec<u8>>, ElfError> {
    with_elf(file, |elf| {
        let Some(section) = elf.section_by_name(PACKED_SYMBOLS) else { return Ok(None) };
        Ok(Some(section.uncompressed_data()?.into_owned()))
    })
}

/// Bytes of a file's names, of all parts together: with debug information those of the largest libraries have a fifth.
const MOST_NAMES: u64 = 8 << 30;

/// The parts of a file that names are in: headers, symbols, notes; with `debug_info` what source lines are made of too.
///
/// # Errors
/// Where it cannot be read, is no ELF file, or says to be larger than it is.
pub fn name_parts(file: &File, debug_info: bool) -> Result<Vec<Range<u64>>, ElfError> {
    let length = file.metadata()?.len();
    let most = believable_bytes(file)?;
    let parts = with_either(file, |elf| Ok(parts_of(elf, debug_info)), |elf| Ok(parts_of(elf, debug_info)))?;
    let too_long = |part: &Range<u64>| part.end > length || part.end - part.start > most;
    let total: u64 = parts.iter().map(|part| part.end - part.start).sum();
    if parts.iter().any(too_long) || total > MOST_NAMES {
        return Err(ElfError::TooLarge);
    }
    Ok(parts)
}

fn parts_of<'a, Header: FileHeader<Endian = Endianness>>(
    elf: &ElfFile<'a, Header, &'a FileBytes<'a>>,
    debug_info: bool,
) -> Vec<Range<u64>> {
    let (endian, header) = (ENDIAN, elf.elf_header());
    let table = |at: Header::Word, entry: u16, count: usize| {
        let at: u64 = at.into();
        at..at.saturating_add(u64::from(entry) * count as u64)
    };
    let sections = elf.elf_section_table();
    let mut parts = vec![
        0..size_of_val(header) as u64,
        table(header.e_phoff(endian), header.e_phentsize(endian), elf.elf_program_headers().len()),
        table(header.e_shoff(endian), header.e_shentsize(endian), sections.len()),
    ];
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        if has_names(section.sh_type(endian)) || debug_info && is_debug_info(name) {
            parts.extend(section.file_range(endian).map(|(at, size)| at..at.saturating_add(size)));
        }
    }
    parts
}

/// Symbol tables, their strings, notes, and what the dynamic linker finds symbols by.
fn has_names(kind: u32) -> bool {
    use object::elf::{
        SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_HASH, SHT_NOTE, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX,
    };
    let kinds =
        [SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_HASH, SHT_NOTE, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX];
    kinds.contains(&kind)
}

fn is_debug_info(name: &[u8]) -> bool {
    [&b".debug_"[..], b".zdebug_", b".gnu_debug"].iter().any(|start| name.starts_with(start))
}

/// An open file as a path, whatever became of its own.
pub fn path_of(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Of all files that are read: x86-64's and arm64's.
pub(super) const ENDIAN: Endianness = Endianness::Little;

type Elf32<'a> = ElfFile32<'a, Endianness, &'a FileBytes<'a>>;

pub(super) type Elf<'a> = ElfFile64<'a, Endianness, &'a FileBytes<'a>>;

type Symbols<'a> = SymbolTable<'a, FileHeader64<Endianness>, &'a FileBytes<'a>>;

/// Parses a file once for whatever is asked of it: each parse reads its symbol tables.
pub(super) fn with_elf<T>(
    file: &File,
    f: impl FnOnce(&Elf<'_>) -> Result<T, ElfError>,
) -> Result<T, ElfError> {
    let bytes = FileBytes::new(file)?;
    let read = Elf::parse(&bytes).map_err(ElfError::from).and_then(|elf| f(&elf));
    // A parser may pass over what it could not read.
    if bytes.has_refused() { Err(ElfError::TooLarge) } else { read }
}

impl From<object::Error> for ElfError {
    fn from(error: object::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The same of a file of 64 bits or of 32, whose names alone are of use.
fn with_either<T>(
    file: &File,
    of_64: impl FnOnce(&Elf<'_>) -> Result<T, String>,
    of_32: impl FnOnce(&Elf32<'_>) -> Result<T, String>,
) -> Result<T, ElfError> {
    let mut begin = [0; object::elf::ELFMAG.len()];
    if file.read_at(&mut begin, 0)? < begin.len() || begin != object::elf::ELFMAG {
        return Err(ElfError::Other);
    }
    let bytes = FileBytes::new(file)?;
    let read = match FileKind::parse(&bytes) {
        Ok(FileKind::Elf32) => {
            ElfFile32::parse(&bytes).map_err(|error| error.to_string()).and_then(|elf| of_32(&elf))
        }
        _ => Elf::parse(&bytes).map_err(|error| error.to_string()).and_then(|elf| of_64(&elf)),
    };
    if bytes.has_refused() { Err(ElfError::TooLarge) } else { read.map_err(ElfError::Damaged) }
}

/// A symbol that the file itself has.
pub(super) struct NamedSymbol<'a> {
    pub(super) name: &'a str,
    /// SVMA.
    pub(super) address: u64,
    pub(super) size: u64,
    /// It is a function.
    pub(super) is_code: bool,
}

/// All symbols that have a name and an address, the dynamic linker's first; some stand in both tables.
///
/// Each table of names is read at once: asked for one name, `object` reads 256 bytes of the file, and libraries have hundreds of thousands.
pub(super) fn named_symbols<'a>(elf: &'a Elf<'_>) -> impl Iterator<Item = NamedSymbol<'a>> {
    let tables = [elf.elf_dynamic_symbol_table(), elf.elf_symbol_table()];
    tables.into_iter().flat_map(|table| named_symbols_of(elf, table))
}

fn named_symbols_of<'a>(elf: &'a Elf<'_>, table: &'a Symbols<'_>) -> impl Iterator<Item = NamedSymbol<'a>> {
    let strings = strings_of(elf, table);
    table.iter().filter_map(|symbol| {
        let (address, size) = (symbol.st_value(ENDIAN), symbol.st_size(ENDIAN));
        let is_here = address != 0 && !symbol.is_undefined(ENDIAN);
        let is_code = symbol.st_type() == object::elf::STT_FUNC;
        let name = || name_at(strings, symbol.st_name(ENDIAN));
        is_here.then(name).flatten().map(|name| NamedSymbol { name, address, size, is_code })
    })
}

/// All names of a table.
fn strings_of<'a>(elf: &'a Elf<'_>, table: &Symbols<'_>) -> &'a [u8] {
    let strings = elf.elf_section_table().section(table.string_section());
    strings.and_then(|section| section.data(ENDIAN, elf.data())).unwrap_or_default()
}

/// Of the symbols that are wanted, and of their `.cold` parts: name, address (SVMA), size.
pub(super) fn find_symbols(elf: &Elf<'_>, wanted: &[&str]) -> Vec<(String, u64, u64)> {
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    if wanted.is_empty() {
        return found;
    }
    let is_of = |name: &str, function: &str| {
        let rest = name.strip_prefix(function);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".cold"))
    };
    for NamedSymbol { name, address, size, .. } in named_symbols(elf) {
        if wanted.iter().any(|function| is_of(name, function)) && !found.iter().any(|(n, ..)| n == name) {
            found.push((name.to_owned(), address, size));
        }
    }
    found
}

/// The string at a place of a string table.
fn name_at(strings: &[u8], at: u32) -> Option<&str> {
    let name = CStr::from_bytes_until_nul(strings.get(at as usize..)?).ok()?;
    name.to_str().ok()
}

/// Bytes of a page of this machine, of which a mapping has whole ones: on Arm 4, 16 or 64 KiB.
fn page_bytes() -> u64 {
    // SAFETY: takes a number.
    let bytes = unsafe { nix::libc::sysconf(nix::libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(PAGE)
}

#[cfg(test)]
mod tests {
    use super::{CodeSegment, ElfError, ElfFacts};

    /// Where two segments share a page of the file, the bias comes from the one with code.
    #[test]
    fn bias_comes_from_the_code_segment() {
        let code = vec![CodeSegment { svma: 0x3a40, offset: 0x2a40, size: 0x1000 }];
        let elf = ElfFacts {
            base: 0,
            entry: 0,
            code,
            build_id: None,
            symbols: Vec::new(),
            py_runtime: None,
            hotspot: Vec::new(),
            context: None,
            tls_block: 0,
        };
        assert_eq!(elf.bias(0x7f00_0000_3000, 0x2000), Some(0x7f00_0000_0000));
        assert_eq!(elf.bias(0x7f00_0000_3000, 0x9000), None);
        assert!(elf.has_code_in(0, 0x3000) && elf.has_code_in(0x3000, 0x1000));
        assert!(!elf.has_code_in(0, 0x2a40) && !elf.has_code_in(0x4000, 0x1000));
    }

    /// Which of two code segments a mapping is of hangs on the pages of the machine: those of 64 KiB begin where the file does.
    #[test]
    fn bias_by_the_size_of_pages() {
        let later = CodeSegment { svma: 0x1_2a40, offset: 0x2a40, size: 0x2_0000 };
        let code = vec![later, CodeSegment { svma: 0x1000, offset: 0x1000, size: 0x1100 }];
        let elf = ElfFacts { code, ..ElfFacts::default() };
        let bias = |page, offset| elf.bias_by_pages(page, 0x10_0000 + offset, offset);
        assert_eq!([0x1000, 0x2000].map(|offset| bias(4096, offset)), [Some(0x10_0000), Some(0xf_0000)]);
        assert_eq!(bias(1 << 16, 1 << 16), Some(0xf_0000));
    }

    /// A file that is not ELF is told from a damaged one, also where it ends within its first word.
    #[test]
    fn not_elf() {
        let read = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
            ElfFacts::read(&file, &[]).unwrap_err()
        };
        for other in [&b""[..], b"\x7fEL", b"\x48\xff\xcf\x75\xfb\xc3"] {
            assert!(matches!(read(other), ElfError::Other), "{other:?}");
        }
        assert!(matches!(read(b"\x7fELF and no more"), ElfError::Damaged(_)));
    }
}
