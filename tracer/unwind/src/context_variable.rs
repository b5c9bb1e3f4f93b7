//! OpenTelemetry's thread-local variable (OTEP 4947), as a file has it.
//!
//! Its distance from the thread pointer is fixed in a program (ELF Handling For Thread-Local Storage). In a library the loader knows it and writes
//! what leads there where the library's relocations say. Leaves out where that is in a process (`thread_context.rs`).

use super::arch::variable::{DESCRIPTOR_RELOCATION, DISTANCE_RELOCATION, MODULE_RELOCATION};
use super::file_bytes::FileBytes;
use object::Endianness;
use object::read::elf::{
    Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};
use serde::{Deserialize, Serialize};
use tracer_ebpf::arch::thread;

/// The variable's name.
const SYMBOL: &[u8] = b"otel_thread_ctx_v1";
/// Places that are kept of a file: a relocation of each kind, and another of each in a table of its own.
const MOST_PLACES: usize = 6;
const ENDIAN: Endianness = Endianness::Little;

type Elf<'a> = ElfFile64<'a, Endianness, &'a FileBytes<'a>>;

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
    /// Looks for it in a file.
    pub(super) fn find(elf: &Elf<'_>) -> Option<Self> {
        let table = elf.elf_dynamic_symbol_table();
        let own = table
            .enumerate()
            .filter(|(_, symbol)| symbol.st_type() == object::elf::STT_TLS && !symbol.is_undefined(ENDIAN));
        let mut named = own.filter(|(_, symbol)| table.symbol_name(ENDIAN, symbol) == Ok(SYMBOL));
        let (number, symbol) = named.next()?;
        let at = symbol.st_value(ENDIAN);
        if let Some(distance) = is_program(elf).then(|| distance(elf, at)).flatten() {
            return Some(Self { at, of_program: Some(distance), places: Vec::new() });
        }
        Some(Self { at, of_program: None, places: places(elf, number.0, at) })
    }
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
    let tables =
        elf.elf_section_table().iter().filter_map(|section| section.rela(ENDIAN, elf.data()).ok()?);
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
