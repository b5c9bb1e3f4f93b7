//! The table of fields that HotSpot exports, as the file has it.
//!
//! The names and the places of variables are in the file; the offsets of fields are written when the library is loaded, so that of them the
//! file tells only where they will stand. Belongs to the resolver. Leaves out what is not needed for stacks.

use crate::arch::RELATIVE_RELOCATION;
use crate::elf::{ENDIAN, Elf};
use object::ReadRef as _;
use object::read::elf::{ProgramHeader as _, SectionHeader as _};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Entries that are looked at: OpenJDK 17 has 788.
const MOST_ENTRIES: usize = 4096;
/// Bytes of an entry (`VMStructEntry`): names of the type, the field and the field's type; whether it is static; offset; address.
const ENTRY: usize = 48;
/// Bytes of a name at the most.
const LONGEST: u64 = 128;
/// Types whose fields are needed.
const OWNERS: [&str; 10] = [
    "AbstractInterpreter",
    "CodeBlob",
    "CodeCache",
    "CodeHeap",
    "GenericGrowableArray",
    "GrowableArray<int>",
    "GrowableArrayBase",
    "InterpreterCodelet",
    "StubQueue",
    "StubRoutines",
];
/// This one too.
const SPACE: &str = "VirtualSpace";

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The type that has it.
    pub owner: String,
    /// Its name.
    pub field: String,
    /// Its type.
    pub kind: String,
    /// It is a variable.
    pub is_static: bool,
    /// Where the variable is, or the word that holds the field's offset (SVMA).
    pub place: u64,
}

/// The needed fields of the table to which the pointer at `table` (SVMA) leads.
pub(crate) fn read_exports(elf: &Elf<'_>, table: u64) -> Vec<Export> {
    let image = Image::of(elf);
    let Some(start) = image.pointer(table) else { return Vec::new() };
    let entries = (start..).step_by(ENTRY).take(MOST_ENTRIES);
    let fields = entries.map_while(|at| Some((at, image.text(image.pointer(at)?)?)));
    let needed = fields.filter(|(_, owner)| OWNERS.contains(owner) || *owner == SPACE);
    needed.filter_map(|(at, owner)| image.field(at, owner)).collect()
}

/// A file as it is loaded, with the pointers that the loader puts into it.
struct Image<'a, 'b> {
    elf: &'a Elf<'b>,
    /// What is written where (both SVMA).
    pointers: HashMap<u64, u64>,
}

impl<'a, 'b> Image<'a, 'b> {
    fn of(elf: &'a Elf<'b>) -> Self {
        let relocations = elf.elf_section_table().iter().filter_map(|section| {
            let found = section.rela(ENDIAN, elf.data());
            found.ok().flatten().map(|(list, _)| list)
        });
        let relative = RELATIVE_RELOCATION;
        let pointers = relocations.flatten().filter(|entry| entry.r_type(ENDIAN, false) == relative);
        let pointers =
            pointers.map(|entry| (entry.r_offset.get(ENDIAN), entry.r_addend.get(ENDIAN).cast_unsigned()));
        Self { elf, pointers: pointers.collect() }
    }

    /// The pointer there; `None` where it is 0.
    fn pointer(&self, at: u64) -> Option<u64> {
        let pointer = self.pointers.get(&at).copied().or_else(|| self.word(at));
        pointer.filter(|&pointer| pointer != 0)
    }

    fn word(&self, at: u64) -> Option<u64> {
        let bytes = self.elf.data().read_bytes_at(self.offset(at)?, 8).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn text(&self, at: u64) -> Option<&'a str> {
        let offset = self.offset(at)?;
        let end = offset.checked_add(LONGEST)?;
        std::str::from_utf8(self.elf.data().read_bytes_at_until(offset..end, 0).ok()?).ok()
    }

    /// Place in the file.
    fn offset(&self, at: u64) -> Option<u64> {
        let headers = self.elf.elf_program_headers().iter();
        let mut loaded = headers.filter(|header| header.p_type(ENDIAN) == object::elf::PT_LOAD);
        loaded.find_map(|header| {
            let within = at.checked_sub(header.p_vaddr(ENDIAN))?;
            if within >= header.p_filesz(ENDIAN) {
                return None;
            }
            header.p_offset(ENDIAN).checked_add(within)
        })
    }

    fn field(&self, at: u64, owner: &str) -> Option<Export> {
        let field = self.text(self.pointer(at + 8)?)?.to_owned();
        let kind = self.pointer(at + 16).and_then(|kind| self.text(kind)).unwrap_or_default().to_owned();
        let is_static = self.word(at + 24)? & 0xffff_ffff != 0;
        let place = if is_static { self.pointer(at + 40)? } else { at + 32 };
        Some(Export { owner: owner.to_owned(), field, kind, is_static, place })
    }
}
