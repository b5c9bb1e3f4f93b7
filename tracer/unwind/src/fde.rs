//! The rule of one address of a file, found when it is asked for: by the search table of `.eh_frame_hdr` and one entry of `.eh_frame`.
//!
//! Nothing is built beforehand, so that a file can be unwound through the moment it is met. Of `.eh_frame`, which is tens of megabytes in
//! large libraries, only the blocks are read in which entries were asked for. Files without a search table (static programs of some
//! linkers) get all their rows at once. Sources: LSB Core 5.0 §10.6. Leaves out what a rule means (`tracer_ebpf::native`).

use super::arch::cfi;
use super::believed::Work;
use super::cfi::{ENTRY_BYTES, OUTERMOST, Rows, read_rows, rule_at};

use super::code_rows::{Budget, functions, rows_of_function};
use super::coroutines::first_functions;
use super::eh_frame::{Blocks, MAX_ENTRY};
use super::elf::{ElfError, ElfFacts, Place, find_unwind_sections, with_elf};
use super::go::is_go;
use gimli::{BaseAddresses, EhFrame as Section, EhFrameHdr, LittleEndian, UnwindContext, UnwindSection as _};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use tracer_ebpf::rows::{FullRule, Rule, rule};

/// A file that is unwound through.
pub struct UnwindFile {
    file: File,
    facts: ElfFacts,
    found: Found,
    /// Code at the entry point without unwind information (SVMA).
    entry: Range<u64>,
    /// Functions that coroutines begin with (SVMA).
    first: Vec<Range<u64>>,
    context: UnwindContext<usize>,
    bare: Bare,
}

/// What code says where the file has a search table, and it says nothing.
struct Bare {
    /// Functions, read when they are needed.
    functions: Option<Vec<Range<u64>>>,
    /// Rows by where a function begins (SVMA).
    rows: HashMap<u64, Rows>,
    /// What looking at more of them may cost.
    budget: Budget,
}

/// Functions whose code is looked at, of one file.
const MOST_BARE: usize = 1 << 16;

/// Where its rules come from.
enum Found {
    /// The search table, and the entries.
    Table { header: Vec<u8>, frames: Blocks, bases: BaseAddresses, start: u64 },
    /// All rows (`tracer_ebpf::rows`).
    Rows(Rows),
}

impl UnwindFile {
    /// Opens a file's unwind information; a file without any has a rule for no address.
    ///
    /// # Errors
    /// Where it cannot be read, or is no ELF file.
    pub fn open(file: File) -> Result<Self, ElfError> {
        let (facts, sections, is_go, first) = with_elf(&file, |elf| {
            Ok((ElfFacts::of(elf, &[]), find_unwind_sections(elf), is_go(elf), first_functions(elf)))
        })?;
        let found = match sections {
            [Some(frames), Some(header)] if !is_go => {
                table(&file, frames, header, Work::of_file(&file, &facts).bytes)
            }
            _ => None,
        };
        let found = match found {
            Some(found) => found,
            None => Found::Rows(read_rows(&file, facts.base)?),
        };
        let context = UnwindContext::new();
        let bare = Bare { functions: None, rows: HashMap::new(), budget: Budget::OF_FILE };
        let mut new = Self { file, facts, found, entry: 0..0, first, context, bare };
        new.entry = new.entry_code();
        Ok(new)
    }

    /// What the file says of itself.
    pub const fn facts(&self) -> &ElfFacts {
        &self.facts
    }

    /// The rule at an address (SVMA), and what it is in full where it does not fit a row; `rule::NONE` where the file has no unwind
    /// information for it, or a damaged one.
    pub fn rule(&mut self, svma: u64) -> (Rule, Option<FullRule>) {
        if self.first.iter().any(|function| function.contains(&svma)) {
            return (OUTERMOST, None);
        }
        let mut found = self.find(svma);
        if is_none(found) && matches!(self.found, Found::Table { .. }) {
            found = self.find_by_code(svma).unwrap_or(found);
        }
        if is_none(found) && self.entry.contains(&svma) { (OUTERMOST, None) } else { found }
    }

    /// As far as there is no unwind information, see `cfi::add_entry`.
    fn entry_code(&mut self) -> Range<u64> {
        let entry = self.facts.entry;
        if entry == 0 {
            return 0..0;
        }
        let most = entry.saturating_add(ENTRY_BYTES);
        let end = (entry..most).find(|&svma| !is_none(self.find(svma))).unwrap_or(most);
        entry..end
    }

    /// What the code of a function without unwind information says.
    fn find_by_code(&mut self, svma: u64) -> Option<(Rule, Option<FullRule>)> {
        let read = || with_elf(&self.file, |elf| Ok(functions(&self.file, elf))).unwrap_or_default();
        let functions = self.bare.functions.get_or_insert_with(read);
        let behind = functions.partition_point(|function| function.start <= svma);
        let function = functions.get(behind.checked_sub(1)?)?.clone();
        if !function.contains(&svma) || self.bare.rows.len() >= MOST_BARE {
            return None;
        }
        if !self.bare.rows.contains_key(&function.start) {
            let is_bare = is_none(self.find(function.start)) && is_none(self.find(function.end - 1));
            let mut read = || rows_of_function(&self.file, &self.facts, &function, &mut self.bare.budget);
            let rows = if is_bare { read() } else { Vec::new() };
            self.bare.rows.insert(function.start, Rows::by_code(rows, self.facts.base));
        }
        Some(self.bare.rows.get(&function.start)?.rule(svma.wrapping_sub(self.facts.base)))
    }

    fn find(&mut self, svma: u64) -> (Rule, Option<FullRule>) {
        match &mut self.found {
            Found::Rows(rows) => rows.rule(svma.wrapping_sub(self.facts.base)),
            Found::Table { header, frames, bases, start } => {
                frames.forget_many();
                let found = frames.find(&self.file, header, bases, *start, svma);
                let rule = found.and_then(|at| frames.rule(bases, at, &mut self.context, svma));
                rule.unwrap_or((Rule::NONE, None))
            }
        }
    }
}

/// Reads the search table; `None` where it has none that can be searched, or one of more bytes than these.
fn table(file: &File, frames: Place, header: Place, most: u64) -> Option<Found> {
    let length = file.metadata().ok()?.len();
    let inside = |place: &Place| place.offset.checked_add(place.size).is_some_and(|end| end <= length);
    if !inside(&frames) || !inside(&header) || header.size > most {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(header.size).ok()?];
    file.read_exact_at(&mut bytes, header.offset).ok()?;
    let bases = BaseAddresses::default().set_eh_frame(frames.svma).set_eh_frame_hdr(header.svma);
    EhFrameHdr::new(&bytes, LittleEndian).parse(&bases, 8).ok()?.table()?;
    let start = frames.svma;
    Some(Found::Table { header: bytes, frames: Blocks::new(file, frames)?, bases, start })
}

/// Whether there is no unwind information.
const fn is_none((rule, _): (Rule, Option<FullRule>)) -> bool {
    rule.kind() == rule::NONE
}

impl Blocks {
    /// Has a whole entry read; gives its place in the section behind its length.
    fn need_entry(&mut self, file: &File, at: usize) -> Option<usize> {
        let length = u32::from_le_bytes(self.need(file, at, 4)?.try_into().ok()?) as usize;
        // `0xffffffff` begins the 64-bit form, which no compiler writes here.
        if length == 0 || length > MAX_ENTRY {
            return None;
        }
        self.need(file, at, 4 + length)?;
        at.checked_add(4)
    }

    /// The place in the section of the entry that may hold an address.
    fn find(
        &mut self,
        file: &File,
        header: &[u8],
        bases: &BaseAddresses,
        start: u64,
        svma: u64,
    ) -> Option<usize> {
        let parsed = EhFrameHdr::new(header, LittleEndian).parse(bases, 8).ok()?;
        let entry = parsed.table()?.lookup(svma, bases).ok()?.direct().ok()?;
        let at = usize::try_from(entry.checked_sub(start)?).ok()?;
        let pointer_at = self.need_entry(file, at)?;
        let pointer = self.need(file, pointer_at, 4)?;
        let back = u32::from_le_bytes(pointer.try_into().ok()?) as usize;
        // The pointer to the common entry is the distance back to it.
        self.need_entry(file, pointer_at.checked_sub(back)?)?;
        Some(at)
    }

    /// The rule of the entry at a place, whose bytes were read.
    fn rule(
        &self,
        bases: &BaseAddresses,
        at: usize,
        context: &mut UnwindContext<usize>,
        svma: u64,
    ) -> Option<(Rule, Option<FullRule>)> {
        let section = cfi::section(self.bytes());
        let fde = section.fde_from_offset(bases, at.into(), Section::cie_from_offset).ok()?;
        if !fde.contains(svma) {
            return None;
        }
        rule_at(&section, bases, &fde, context, svma).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, UnwindFile};
    use crate::arch::tests::{library, library_path};
    use crate::cfi::{add_entry, read_rows};
    use crate::elf::{ElfFacts, find_unwind_sections, with_elf};
    use std::fs::File;
    use tracer_ebpf::rows::{FullRule, Rule};

    /// At every row of the C library, and just before the next, the rule that is looked up is the one of the whole table.
    #[test]
    fn rules_are_those_of_the_table() {
        let file = library("libc.so.6");
        let facts = ElfFacts::read(&file, &[]).unwrap();
        let base = facts.base;
        let mut rows = read_rows(&file, base).unwrap();
        add_entry(&mut rows.rows, facts.entry - base);
        let mut file = UnwindFile::open(file).unwrap();
        let starts = rows.rows.iter().map(|row| row >> 32);
        for place in starts.flat_map(|start| [start, start.saturating_sub(1)]) {
            // Rules in full are numbered by the table that they stand in.
            let plain = |(rule, full): (Rule, Option<FullRule>)| (full.is_none().then_some(rule), full);
            assert_eq!(plain(file.rule(base + place)), plain(rows.rule(place)), "{place:#x}");
        }
        assert!(rows.rows.len() > 10_000);
    }

    /// Damaged tables give other rules or none, never a panic.
    #[test]
    fn damaged_files() {
        let whole = std::fs::read(library_path("libm.so.6")).unwrap();
        let places = with_elf(&library("libm.so.6"), |elf| Ok(find_unwind_sections(elf)));
        let places = places.unwrap().map(Option::unwrap);
        let dir = tempfile::tempdir().unwrap();
        for (step, flip) in [(1, 0xff), (7, 0x5a), (64, 0x80), (509, 1), (4096, 0x7f)] {
            let mut bytes = whole.clone();
            for place in places {
                for at in (place.offset..place.offset + place.size).step_by(step) {
                    bytes[usize::try_from(at).unwrap()] ^= flip;
                }
            }
            let copy = dir.path().join("damaged");
            std::fs::write(&copy, &bytes).unwrap();
            let Ok(mut file) = UnwindFile::open(File::open(&copy).unwrap()) else { continue };
            for svma in (0..1 << 20).step_by(97).chain([u64::MAX, u64::MAX - 4096]) {
                file.rule(svma);
            }
            // A file that shrinks while it is open.
            File::options().write(true).open(&copy).unwrap().set_len(4096).unwrap();
            file.rule(0x20_000);
        }
    }

    /// A file without unwind information has no rule anywhere, and one that is not ELF is an error.
    #[test]
    fn files_without_rules() {
        assert!(UnwindFile::open(File::open("/etc/passwd").unwrap()).is_err());
        assert_eq!(Rows::default().rule(7), (Rule::NONE, None));
    }
}
