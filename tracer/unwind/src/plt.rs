//! Procedure linkage tables: rows of those for which the linker wrote no unwind information, as LLVM's does, and which function an entry jumps to.
//!
//! Leaves out what an entry looks like (`arch`, `tracer_ebpf::arch::call`).

use super::arch::plt::rows;
use super::code_rule::CodeRule;
use super::elf::{Elf, ElfFacts, with_elf};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use tracer_ebpf::arch::call::behind_plt;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};

/// Bytes of an entry, where the first one begins at a multiple of them.
const ENTRY: u64 = 16;

/// Where such tables are in a file (SVMA).
pub(super) fn tables(elf: &Elf<'_>) -> impl Iterator<Item = Range<u64>> {
    [".plt", ".plt.sec", ".plt.got", ".iplt"].into_iter().filter_map(|name| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    })
}

/// Rows (SVMA) of a table that begins with this code; `None` where it is none.
pub(super) fn table_rows(code: &[u8], table: &Range<u64>) -> Option<Vec<(u64, CodeRule)>> {
    let rows = rows(code)?.into_iter().map(|(place, rule)| (table.start.saturating_add(place), rule));
    Some(rows.chain([(table.end, CodeRule::NONE)]).collect())
}

/// The function that the entry around each address (SVMA) jumps to, as the dynamic linker calls it; `None` where there is no entry.
pub fn linked_functions(file: &File, addresses: &[u64]) -> Vec<Option<String>> {
    let read = |elf: &Elf<'_>| {
        let (facts, tables) = (ElfFacts::of(elf, &[]), Vec::from_iter(tables(elf)));
        let slot = |&address: &u64| {
            let table = tables.iter().find(|table| table.contains(&address))?;
            slot_of(file, &facts, address - (address - table.start) % ENTRY)
        };
        let slots: Vec<Option<u64>> = addresses.iter().map(slot).collect();
        let wanted: HashSet<u64> = slots.iter().flatten().copied().collect();
        let names = if wanted.is_empty() { HashMap::new() } else { names(elf, &wanted) };
        Ok(slots.into_iter().map(|slot| names.get(&slot?).cloned()).collect())
    };
    with_elf(file, read).unwrap_or_else(|_| vec![None; addresses.len()])
}

/// The word from which an entry takes where to jump to (SVMA).
fn slot_of(file: &File, facts: &ElfFacts, entry: u64) -> Option<u64> {
    let mut code = [0; 24];
    file.read_exact_at(&mut code, facts.file_offset(entry)?).ok()?;
    behind_plt(entry, &Entry { at: entry, code })
}

/// The names that the dynamic linker looks up for these words.
fn names(elf: &Elf<'_>, slots: &HashSet<u64>) -> HashMap<u64, String> {
    let symbols = elf.dynamic_symbol_table();
    let of_slots = elf.dynamic_relocations().into_iter().flatten().filter(|(at, _)| slots.contains(at));
    let named = of_slots.filter_map(|(at, relocation)| {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
        let name = symbols.as_ref()?.symbol_by_index(symbol).ok()?.name().ok()?.to_owned();
        Some((at, name))
    });
    named.collect()
}

/// The code of one entry. All other memory holds its own address: what an entry would jump to is then where it would read that.
struct Entry {
    at: u64,
    code: [u8; 24],
}

impl Memory for Entry {
    fn read_word(&self, address: u64) -> Option<u64> {
        let place = address.checked_sub(self.at).and_then(|place| usize::try_from(place).ok());
        let word = place.and_then(|place| self.code.get(place..place.checked_add(8)?));
        word.map_or(Some(address), |word| word.try_into().ok().map(u64::from_ne_bytes))
    }

    fn read_frame(&self, _address: u64, _bytes: u32, _out: &mut [u64; FRAME_WORDS]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::linked_functions;
    use crate::arch::tests::compiler;
    use crate::cfi::read_rows;
    use crate::elf::{ElfFacts, with_elf};
    use crate::fde::UnwindFile;
    use std::fs::File;
    use std::process::Command;
    use tracer_ebpf::rows::{Rule, rule};

    /// A library with two calls of others, linked by LLVM's linker, which Rust brings along.
    fn linked_by_llvm(folder: &std::path::Path) -> File {
        let root = Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap().stdout;
        let linkers = format!("{}/../bin/gcc-ld", String::from_utf8(root).unwrap().trim());
        std::fs::write(
            folder.join("a.c"),
            "int atoi(char *); int abs(int); int f(char *s) { return abs(atoi(s)) + atoi(s + 1); }",
        )
        .unwrap();
        let mut cc = compiler();
        cc.args([
            "-O1",
            "-fPIC",
            "-fno-builtin",
            "-shared",
            "-fuse-ld=lld",
            "-B",
            &linkers,
            "-o",
            "a.so",
            "a.c",
        ]);
        assert!(cc.current_dir(folder).status().unwrap().success());
        File::open(folder.join("a.so")).unwrap()
    }

    /// Entries that LLVM's linker wrote have the rules of their code, by rows and when one is asked for, and the names of what they jump to; the
    /// table's head, and what lies behind, are no entries.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "entries as x86-64 has them")]
    fn tables_without_unwind_information() {
        let folder = tempfile::tempdir().unwrap();
        let file = linked_by_llvm(folder.path());
        let facts = ElfFacts::read(&file, &[]).unwrap();
        let table = with_elf(&file, |elf| Ok(super::tables(elf).next())).unwrap().unwrap();
        let rows = read_rows(&file, facts.base).unwrap();
        let mut lazily = UnwindFile::open(file.try_clone().unwrap()).unwrap();
        let mut rule_at = |place: u64| {
            let by_rows = rows.rule(table.start + place - facts.base).0;
            assert_eq!(lazily.rule(table.start + place).0, by_rows, "{place}");
            by_rows
        };
        assert_eq!(rule_at(0), Rule::pack(rule::SP, 16, 0).unwrap());
        assert_eq!(rule_at(6), Rule::pack(rule::SP, 24, 0).unwrap());
        for place in [16, 22, 27, 32, 43] {
            assert_eq!(rule_at(place), Rule::pack(rule::PLT, 8, 0).unwrap(), "{place}");
        }
        assert_ne!(rule_at(table.end - table.start).kind(), rule::PLT);
        let entries = (table.start + 16..table.end).step_by(16);
        let inside: Vec<u64> = entries.flat_map(|entry| [entry, entry + 11]).collect();
        let names = linked_functions(&file, &inside);
        assert!(names.chunks(2).all(|entry| entry[0].is_some() && entry[0] == entry[1]), "{names:?}");
        assert!(["abs", "atoi"].iter().all(|name| names.contains(&Some((*name).to_owned()))), "{names:?}");
        assert_eq!(linked_functions(&file, &[table.start, table.end, 0]), [None, None, None]);
        assert_eq!(linked_functions(&File::open("/etc/passwd").unwrap(), &[1]), [None]);
    }
}
