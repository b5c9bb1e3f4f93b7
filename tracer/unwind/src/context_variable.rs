//! OpenTelemetry's thread-local variable (OTEP 4947), as a file has it.
//!
//! Its distance from the thread pointer is fixed in a program (ELF Handling For Thread-Local Storage). In a library the loader knows it and writes
//! what leads there where the library's relocations say. Leaves out where that is in a process (`thread_context.rs`).

use super::arch::variable::{DESCRIPTOR_RELOCATION, DISTANCE_RELOCATION, MODULE_RELOCATION};
use super::file_bytes::FileBytes;
use object::Endianness;
use object::ReadRef as _;
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::{
    Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
    SymbolTable,
};
use serde::{Deserialize, Serialize};
use tracer_ebpf::arch::thread;

/// The variable's name.
const SYMBOL: &[u8] = b"otel_thread_ctx_v1\0";
/// Thread-local variables of a file whose names are looked at: the largest programs have some hundred.
const MOST_VARIABLES: usize = 4096;
/// Tables of relocations that are looked at, of which linkers make two, and their bytes together: those of the largest libraries have a tenth.
const MOST_TABLES: usize = 16;
const MOST_TABLE_BYTES: u64 = 256 << 20;
/// Places that are kept of a file: a relocation of each kind, and another of each in a table of its own.
const MOST_PLACES: usize = 6;
const ENDIAN: Endianness = Endianness::Little;

type Elf<'a> = ElfFile64<'a, Endianness, &'a FileBytes<'a>>;
type Symbols<'a> = SymbolTable<'a, FileHeader64<Endianness>, &'a FileBytes<'a>>;

/// The variable, as a file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextVariable {
    /// Where it is among the file's thread-local variables.
    pub(super) at: u64,
    /// Its distance from the thread pointer, where the file is a program.
    pub(super) of_program: Option<i64>,
    /// Where the loader writes what leads to it (SVMA).
    pub(super) places: Vec<(Written, u64)>,
}

/// What the loader writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Written {
    /// The module's number.
    Module,
    /// The distance from the thread pointer.
    Distance,
    /// A function and its argument.
    Descriptor,
}

impl ContextVariable {
    /// Looks for it in a file. A program may have it without showing it to others (linked without `-rdynamic`, and not stripped).
    pub(super) fn find(elf: &Elf<'_>) -> Option<Self> {
        let is_program = is_program(elf);
        let hidden = || is_program.then(|| symbol(elf, elf.elf_symbol_table())).flatten();
        let (number, at) = symbol(elf, elf.elf_dynamic_symbol_table()).or_else(hidden)?;
        if let Some(distance) = is_program.then(|| distance(elf, at)).flatten() {
            return Some(Self { at, of_program: Some(distance), places: Vec::new() });
        }
        Some(Self { at, of_program: None, places: places(elf, number, at) })
    }
}

/// The variable's number in a table of symbols, and its place among the file's thread-local variables.
fn symbol(elf: &Elf<'_>, table: &Symbols<'_>) -> Option<(usize, u64)> {
    let names = elf.elf_section_table().section(table.string_section()).ok()?.sh_offset(ENDIAN);
    let is_it = |at: u32| {
        let at = names.checked_add(at.into())?;
        elf.data().read_bytes_at(at, SYMBOL.len() as u64).ok().filter(|name| *name == SYMBOL)
    };
    let mut own = table
        .enumerate()
        .filter(|(_, symbol)| symbol.st_type() == object::elf::STT_TLS && !symbol.is_undefined(ENDIAN))
        .take(MOST_VARIABLES);
    let (number, symbol) = own.find(|(_, symbol)| is_it(symbol.st_name(ENDIAN)).is_some())?;
    Some((number.0, symbol.st_value(ENDIAN)))
}

/// Whether a file is what is executed: it names a loader, lies at fixed addresses, or says that it is.
fn is_program(elf: &Elf<'_>) -> bool {
    let names_loader = |elf: &Elf<'_>| {
        elf.elf_program_headers().iter().any(|header| header.p_type(ENDIAN) == object::elf::PT_INTERP)
    };
    let says_so = |elf: &Elf<'_>| {
        let dynamic = elf.elf_section_table().dynamic(ENDIAN, elf.data()).ok().flatten();
        dynamic.is_some_and(|(entries, _)| {
            entries.iter().any(|entry| {
                let (tag, flags) = (entry.d_tag(ENDIAN), entry.d_val(ENDIAN));
                tag == object::elf::DT_FLAGS_1 && flags & u64::from(object::elf::DF_1_PIE) != 0
            })
        })
    };
    elf.elf_header().e_type(ENDIAN) == object::elf::ET_EXEC || names_loader(elf) || says_so(elf)
}

/// How far the byte `at` of a program's thread-local variables is from the thread pointer.
fn distance(elf: &Elf<'_>, at: u64) -> Option<i64> {
    let mut headers = elf.elf_program_headers().iter();
    let variables = headers.find(|header| header.p_type(ENDIAN) == object::elf::PT_TLS)?;
    thread::of_program(variables.p_memsz(ENDIAN), variables.p_align(ENDIAN), at)
}

/// Where the loader writes what leads to the variable of this number and place.
fn places(elf: &Elf<'_>, number: usize, at: u64) -> Vec<(Written, u64)> {
    let mut room = MOST_TABLE_BYTES;
    let tables = elf.elf_section_table().iter().filter(|section| is_of_loader(section)).take(MOST_TABLES);
    let tables = tables.map_while(|section| {
        room = room.checked_sub(section.sh_size(ENDIAN))?;
        section.rela(ENDIAN, elf.data()).ok()?
    });
    let found = tables.flat_map(|(relocations, _)| relocations).filter_map(|relocation| {
        let written = match relocation.r_type(ENDIAN, false) {
            MODULE_RELOCATION => Written::Module,
            DISTANCE_RELOCATION => Written::Distance,
            DESCRIPTOR_RELOCATION => Written::Descriptor,
            _ => return None,
        };
        // Without a symbol it is about the file's own variables.
        let is_own = || written == Written::Module || relocation.r_addend(ENDIAN).cast_unsigned() == at;
        let symbol = relocation.r_sym(ENDIAN, false) as usize;
        let is_it = symbol == number || symbol == 0 && is_own();
        is_it.then(|| (written, relocation.r_offset(ENDIAN)))
    });
    found.take(MOST_PLACES).collect()
}

/// Whether a section has relocations that the loader makes, not those of the linker.
fn is_of_loader(section: &SectionHeader64<Endianness>) -> bool {
    let is_loaded = section.sh_flags(ENDIAN) & u64::from(object::elf::SHF_ALLOC) != 0;
    section.sh_type(ENDIAN) == object::elf::SHT_RELA && is_loaded
}

#[cfg(test)]
mod tests {
    use super::super::file_bytes::FileBytes;
    use super::{ContextVariable, MOST_TABLE_BYTES, MOST_TABLES, SYMBOL, Written};
    use super::{DESCRIPTOR_RELOCATION, DISTANCE_RELOCATION, MODULE_RELOCATION};
    use object::elf::{
        ET_DYN, ET_EXEC, PT_TLS, SHF_ALLOC, SHT_DYNSYM, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, STT_TLS,
    };
    use std::io::Write as _;

    /// A section's kind, flags, what it goes by, and its bytes.
    type Section = (u32, u32, u32, Vec<u8>);

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Names, and symbols with the variable as number 2 and another one as number 1: in section 1 and section 2.
    fn symbols(kind: u32) -> [Section; 2] {
        let names = [b"\0other\0", SYMBOL].concat();
        let symbol = |name: u64, at: u64| words(&[1 << 48 | u64::from(STT_TLS) << 32 | name, at, 8]);
        [(SHT_STRTAB, 0, 0, names), (kind, 0, 1, [words(&[0; 3]), symbol(1, 8), symbol(7, 16)].concat())]
    }

    fn relocations(all: &[(u32, u64, u64, u64)]) -> Section {
        let one = |&(kind, symbol, at, addend): &(u32, u64, u64, u64)| {
            words(&[at, symbol << 32 | u64::from(kind), addend])
        };
        (SHT_RELA, SHF_ALLOC, 2, all.iter().flat_map(one).collect())
    }

    /// Bytes of the file's header; where its table of sections lies.
    const HEADER: usize = 64;
    const TABLES: usize = HEADER + 56;

    /// A file of this kind (`ET_DYN`) with these sections, and with 48 bytes of thread-local variables.
    fn elf(kind: u16, sections: &[Section]) -> Vec<u8> {
        let machine = object::elf::EM_X86_64;
        let mut file = [b"\x7fELF\x02\x01\x01".to_vec(), vec![0; 9]].concat();
        file.extend([kind, machine].map(u16::to_le_bytes).concat());
        file.extend(1_u32.to_le_bytes());
        file.extend(words(&[0, HEADER as u64, TABLES as u64]));
        let counts = [0, 0, 64, 56, 1, 64, u16::try_from(sections.len() + 1).unwrap(), 1];
        file.extend(counts.map(u16::to_le_bytes).concat());
        file.extend(words(&[u64::from(PT_TLS), 0, 0, 0, 0, 48, 8]));
        file.extend([0; 64]);
        let mut at = (TABLES + 64 * (sections.len() + 1)) as u64;
        for (kind, flags, link, bytes) in sections {
            let (kind, size) = (u64::from(*kind) << 32, bytes.len() as u64);
            file.extend(words(&[kind, (*flags).into(), 0, at, size, (*link).into(), 8, 24]));
            at += size;
        }
        sections.iter().for_each(|(.., bytes)| file.extend(bytes));
        file
    }

    fn find(bytes: &[u8]) -> Option<ContextVariable> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let bytes = FileBytes::new(&file).unwrap();
        ContextVariable::find(&super::Elf::parse(&bytes).unwrap())
    }

    fn library(tables: Vec<Section>) -> Vec<(Written, u64)> {
        let found = find(&elf(ET_DYN, &[symbols(SHT_DYNSYM).to_vec(), tables].concat())).unwrap();
        assert_eq!((found.at, found.of_program), (16, None));
        found.places
    }

    /// A library's relocations of each kind lead to the variable: by its number, or without one by its place. Those of others do not.
    #[test]
    fn relocations_of_each_kind() {
        for (kind, written) in [
            (MODULE_RELOCATION, Written::Module),
            (DISTANCE_RELOCATION, Written::Distance),
            (DESCRIPTOR_RELOCATION, Written::Descriptor),
        ] {
            let all = [(kind, 2, 0x100, 0), (kind, 1, 0x200, 0), (kind, 0, 0x300, 16), (1, 2, 0x400, 0)];
            let found = library(vec![relocations(&all)]);
            assert_eq!(found, [(written, 0x100), (written, 0x300)], "{written:?}");
            let of_other = library(vec![relocations(&[(kind, 0, 0x500, 8)])]);
            // A module's number is the same for all its variables.
            let is_any = written == Written::Module;
            assert_eq!(of_other, if is_any { vec![(written, 0x500)] } else { Vec::new() });
        }
    }

    /// A program has it where the linker has put it, also where it shows it to nobody; a library that does not show it has none.
    #[test]
    fn programs() {
        for kind in [SHT_DYNSYM, SHT_SYMTAB] {
            let found = find(&elf(ET_EXEC, &symbols(kind))).unwrap();
            let distance = super::thread::of_program(48, 8, 16);
            assert!(distance.is_some());
            assert_eq!(found, ContextVariable { at: 16, of_program: distance, places: Vec::new() });
        }
        assert_eq!(find(&elf(ET_DYN, &symbols(SHT_SYMTAB))), None);
    }

    /// Of hostile files with tables without number or end only so much is looked at; relocations for linkers are none of the loader's.
    #[test]
    fn bounded() {
        let own = || relocations(&[(MODULE_RELOCATION, 2, 0x100, 0)]);
        let other = || relocations(&[(MODULE_RELOCATION, 1, 0x200, 0)]);
        let behind = |count: usize| [vec![other(); count], vec![own()]].concat();
        assert_eq!(library(behind(MOST_TABLES - 1)), [(Written::Module, 0x100)]);
        assert_eq!(library(behind(MOST_TABLES)), []);
        assert_eq!(library(behind(60_000)), []);
        let (kind, _, link, bytes) = own();
        assert_eq!(library(vec![(kind, 0, link, bytes)]), []);
        let all = relocations(&[(MODULE_RELOCATION, 2, 0x100, 0); 100]);
        assert_eq!(library(vec![all]).len(), super::MOST_PLACES);
        // A first table that says to be larger than there is room for.
        let mut huge = elf(ET_DYN, &[symbols(SHT_DYNSYM).to_vec(), behind(1)].concat());
        huge[TABLES + 3 * 64 + 32..][..8].copy_from_slice(&(MOST_TABLE_BYTES + 1).to_le_bytes());
        assert_eq!(find(&huge).unwrap().places, []);
    }
}
