//! `.eh_frame` to unwind rows: what the compiler says about finding the caller, eight bytes for each stretch of code.
//!
//! Sources: DWARF 5 §6.4; LSB Core 5.0 §10.6 (`.eh_frame`). A rule that does not fit eight bytes is kept in full. Leaves out what a row's
//! registers and expressions mean (`arch`).

use super::arch::cfi::{self, Meaning};
use super::believed::{MOST_ROWS, Work};
use super::code_rows::{functions, read_code_rows};
use super::code_rule::CodeRule;
use super::coroutines::first_functions;
use super::eh_frame::{FrameBytes, FrameFile, Next, read_entries};
use super::elf::{EhFrame, Elf, ElfError, ElfFacts, Place, find_unwind_sections, with_elf};
pub use super::full_rules::FullRules;
use super::go::read_go_rows;
use gimli::{
    BaseAddresses, EhFrame as Section, EndianSlice, LittleEndian, UnwindContext, UnwindSection as _,
};
use std::collections::HashMap;
use std::fs::File;
use std::mem;
use std::ops::Range;
use tracer_ebpf::rows::{FullRule, Rule, rule};

/// What gimli reads from.
pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Fde<'a> = gimli::FrameDescriptionEntry<Reader<'a>>;
type Cies<'a> = HashMap<usize, gimli::CommonInformationEntry<Reader<'a>>>;

/// Rows of one file, sorted, with what could not be expressed.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The rows, see `tracer_ebpf::rows`.
    pub rows: Vec<u64>,
    /// Rules in full, to which rows of kind `FULL` lead by their place here.
    pub full: Vec<FullRule>,
    /// FDEs that could not be parsed; their code has no rows.
    pub damaged: u64,
    /// Rows whose rule does not fit.
    pub unsupported: u64,
    /// There were more than the file's code can need: those behind are not here.
    pub too_many: bool,
}

/// Where the functions of a file begin, as file offsets in order, by its unwind information; empty where there is none.
pub fn function_starts(file: &File) -> Vec<u64> {
    let Ok(facts) = ElfFacts::read(file, &[]) else { return Vec::new() };
    let Ok(Some(mut section)) = FrameFile::find(file) else { return Vec::new() };
    let (mut starts, mut work) = (Vec::new(), Work::of_file(file, &facts));
    each_fde(&mut section, |_, _, fde| {
        starts.extend(fde.as_ref().ok().and_then(|fde| facts.file_offset(fde.initial_address())));
        work.takes(bytes_of(&fde)) && starts.len() < MOST_ROWS
    });
    starts.sort_unstable();
    starts
}

/// Makes rows of a section. `base` is the lowest address of the file (SVMA): rows are relative to it.
pub fn build_rows(mut section: &EhFrame, base: u64) -> Rows {
    rows_of(&mut section, base, Work::WITHOUT_LIMIT)
}

/// Makes rows of a file, of which only a part is in memory at a time; none where it has no unwind information.
///
/// # Errors
/// Where it cannot be read, or is no ELF file.
pub fn read_rows(file: &File, base: u64) -> Result<Rows, ElfError> {
    let Sources { facts, frames, go, functions, first } = with_elf(file, |elf| Sources::read(file, elf))?;
    let section = frames.map(|place| FrameFile::at(file, place)).transpose()?;
    let work = Work::of_file(file, &facts);
    let mut rows = section.map(|mut section| rows_of(&mut section, base, work)).unwrap_or_default();
    let bare = functions.into_iter().filter(|code| rows.is_bare(code, base));
    let by_go = go.into_iter().map(|(svma, rule)| (svma, CodeRule::Short(rule)));
    let new = if by_go.len() == 0 { read_code_rows(file, &facts, bare) } else { by_go.collect() };
    if !new.is_empty() {
        rows.add_by_code(new, base);
        rows.rows = tidy(rows.rows);
    }
    for first in first {
        rows.begin_stacks(first.start.saturating_sub(base)..first.end.saturating_sub(base));
    }
    Ok(rows)
}

/// What a file's rows are made of; its symbols are not kept in memory meanwhile.
struct Sources {
    facts: ElfFacts,
    /// Where `.eh_frame` lies.
    frames: Option<Place>,
    /// Rows by Go's own table (SVMA).
    go: Vec<(u64, Rule)>,
    /// Where Go's table is not there: functions (SVMA), in order.
    functions: Vec<Range<u64>>,
    /// Functions that coroutines begin with (SVMA).
    first: Vec<Range<u64>>,
}

impl Sources {
    fn read(file: &File, elf: &Elf<'_>) -> Result<Self, ElfError> {
        let facts = ElfFacts::of(elf, &[]);
        let [frames, _] = find_unwind_sections(elf);
        let go = read_go_rows(elf, |svma| facts.file_offset(svma).is_some())?;
        let functions = if go.is_empty() { functions(file, elf) } else { Vec::new() };
        Ok(Self { facts, frames, go, functions, first: first_functions(elf) })
    }
}

fn rows_of(section: &mut impl FrameBytes, base: u64, mut work: Work) -> Rows {
    let mut context = UnwindContext::new();
    let mut out = Builder { base, most: work.rows, ..Builder::default() };
    let whole = each_fde(section, |frames, bases, fde| {
        if !work.takes(bytes_of(&fde)) || out.is_full() {
            out.rows.too_many = true;
            return false;
        }
        let done = fde.and_then(|fde| out.add_fde(frames, bases, &fde, &mut context));
        out.rows.damaged += u64::from(done.is_err());
        true
    });
    out.rows.damaged += u64::from(!whole && !out.rows.too_many);
    out.finish()
}

/// Bytes of an entry, with what it has in common with others and is read again for it; of one that cannot be parsed as few as there may be.
fn bytes_of(fde: &gimli::Result<Fde<'_>>) -> u64 {
    const LEAST: u64 = 16;
    fde.as_ref().map_or(LEAST, |fde| (fde.entry_len() + fde.cie().entry_len()) as u64)
}

/// Gives the FDEs of a section in their order, for as long as they are taken. Whether it could be read to its end.
pub(super) fn each_fde(
    section: &mut impl FrameBytes,
    mut take: impl FnMut(&Section<Reader<'_>>, &BaseAddresses, gimli::Result<Fde<'_>>) -> bool,
) -> bool {
    let bases = BaseAddresses::default().set_eh_frame(section.svma());
    let mut entries = Vec::new();
    let mut next = Next::At(0);
    while let Next::At(at) = next {
        next = read_entries(section, at, &mut entries);
        let frames = cfi::section(section.bytes());
        let mut cies = Cies::new();
        for entry in &entries {
            if entry.common {
                if frames.cie_from_offset(&bases, entry.at.into()).is_err() {
                    return false;
                }
                continue;
            }
            let Ok(partial) = frames.partial_fde_from_offset(&bases, entry.at.into()) else { return false };
            if !take(&frames, &bases, parse_fde(&partial, &mut cies)) {
                return false;
            }
        }
        if let Next::At(at) = next {
            section.forget(at);
        }
    }
    next == Next::End
}

/// Parses an FDE; its CIE, which most share, once.
fn parse_fde<'a>(
    partial: &gimli::PartialFrameDescriptionEntry<'_, Section<Reader<'a>>, Reader<'a>>,
    cies: &mut Cies<'a>,
) -> gimli::Result<Fde<'a>> {
    partial.parse(|section, bases, offset| {
        if let Some(cie) = cies.get(&offset.0) {
            return Ok(cie.clone());
        }
        let cie = section.cie_from_offset(bases, offset)?;
        cies.insert(offset.0, cie.clone());
        Ok(cie)
    })
}

/// Bytes of the code at an entry point: the dynamic loader's, the longest, has 60.
pub(super) const ENTRY_BYTES: u64 = 64;

/// Adds a row for the entry point (relative to the file's lowest address), where rows say that there is no unwind information: nobody
/// called it, so that its frame is the outermost. The dynamic loader's says nothing of itself (glibc, sysdeps/x86_64/dl-machine.h,
/// `RTLD_START`).
pub fn add_entry(rows: &mut Vec<u64>, entry: u64) {
    let after = rows.partition_point(|row| row >> 32 <= entry);
    let (before, behind) = rows.split_at(after);
    let is_none = |row: &u64| *row & 0xffff_ffff == u64::from(Rule::NONE.0);
    if entry == 0 || !before.last().is_none_or(is_none) {
        return;
    }
    let next = behind.first().map_or(u64::MAX, |row| row >> 32);
    let end = next.min(entry.saturating_add(ENTRY_BYTES));
    let mut new: Vec<u64> = pack(entry, OUTERMOST).into_iter().collect();
    new.extend(pack(end, Rule::NONE).filter(|_| end < next));
    let same = before.last().is_some_and(|row| row >> 32 == entry);
    rows.splice(after - usize::from(same)..after, new);
}

/// The rule of one FDE at an address (SVMA), and what it is in full where it does not fit a row; `rule::NONE` outside it. By all of the
/// FDE's rows, for what one says may hang on the one before.
pub(super) fn rule_at<'a>(
    eh_frame: &Section<Reader<'a>>,
    bases: &BaseAddresses,
    fde: &Fde<'a>,
    context: &mut UnwindContext<usize>,
    svma: u64,
) -> gimli::Result<(Rule, Option<FullRule>)> {
    let base = fde.initial_address();
    let mut builder = Builder { base, most: MOST_ROWS, ..Builder::default() };
    builder.add_fde(eh_frame, bases, fde, context)?;
    Ok(builder.finish().rule(svma.wrapping_sub(base)))
}

/// The outermost frame.
pub(super) const OUTERMOST: Rule = Rule(rule::OUTERMOST << 28);

impl Rows {
    /// Has stacks begin in a function (relative to the file's lowest address), whatever its own rows say.
    fn begin_stacks(&mut self, function: Range<u64>) {
        let (behind, _) = self.rule(function.end);
        self.rows.retain(|row| !function.contains(&(row >> 32)) && row >> 32 != function.end);
        let at = self.rows.partition_point(|row| row >> 32 < function.start);
        let new = [(function.start, OUTERMOST), (function.end, behind)];
        self.rows.splice(at..at, new.into_iter().filter_map(|(place, rule)| pack(place, rule)));
    }

    /// Of rules and where they begin (SVMA), in order.
    pub(super) fn by_code(rules: Vec<(u64, CodeRule)>, base: u64) -> Self {
        let mut rows = Self::default();
        rows.add_by_code(rules, base);
        rows
    }

    /// Adds rules and where they begin (SVMA), behind the others.
    fn add_by_code(&mut self, rules: Vec<(u64, CodeRule)>, base: u64) {
        let mut full = FullRules::of(mem::take(&mut self.full));
        let rows = rules.into_iter().filter_map(|(svma, rule)| {
            let rule = match rule {
                CodeRule::Short(rule) => rule,
                CodeRule::Full(rule) => full.number(rule),
            };
            pack(svma.checked_sub(base)?, rule)
        });
        self.rows.extend(rows);
        self.full = full.into_rules();
    }

    /// Whether nothing is known of code (SVMA).
    fn is_bare(&self, code: &Range<u64>, base: u64) -> bool {
        let (start, end) = (code.start.saturating_sub(base), code.end.saturating_sub(base));
        let next = self.rows.partition_point(|row| row >> 32 <= start);
        self.rule(start).0 == Rule::NONE && self.rows.get(next).is_none_or(|row| row >> 32 >= end)
    }

    /// The rule at a place (relative to the file's lowest address), and what it is in full where it does not fit a row.
    pub(super) fn rule(&self, place: u64) -> (Rule, Option<FullRule>) {
        let after = self.rows.partition_point(|row| row >> 32 <= place);
        let row = after.checked_sub(1).and_then(|last| self.rows.get(last));
        let rule = row.map_or(Rule::NONE, |row| Rule((row & 0xffff_ffff) as u32));
        let full = (rule.kind() == rule::FULL).then(|| self.full.get(rule.index() as usize).copied());
        (rule, full.flatten())
    }
}

fn pack(place: u64, rule: Rule) -> Option<u64> {
    Some(u64::from(u32::try_from(place).ok()?) << 32 | u64::from(rule.0))
}

/// Rows that are being made.
#[derive(Default)]
struct Builder {
    base: u64,
    rows: Rows,
    full: FullRules,
    /// Rows at the most.
    most: usize,
}

impl Builder {
    /// The rows, in order.
    fn finish(self) -> Rows {
        Rows { rows: tidy(self.rows.rows), full: self.full.into_rules(), ..self.rows }
    }

    fn add_fde<'a>(
        &mut self,
        eh_frame: &Section<Reader<'a>>,
        bases: &BaseAddresses,
        fde: &Fde<'a>,
        context: &mut UnwindContext<usize>,
    ) -> gimli::Result<()> {
        if fde.len() == 0 || fde.initial_address() < self.base {
            return Ok(()); // Left behind by the linker for discarded code.
        }
        let signal = fde.is_signal_trampoline();
        let mut table = fde.rows(eh_frame, bases, context)?;
        let mut before = None;
        while let Some(row) = table.next_row()? {
            let start = row.start_address();
            if start >= fde.end_address() || self.is_full() {
                break; // Code that was cut off leaves rules behind its end; what follows may have none.
            }
            let meaning = if signal { Meaning::SIGNAL } else { cfi::meaning_of(row, eh_frame) };
            if let (Some((from, Meaning::Full(full))), Meaning::Popped(_)) = (before, meaning)
                && let Some((at, popped)) = cfi::popped_before(from, start, full)
            {
                let rule = self.rule_of(Meaning::Full(popped));
                self.add(at, rule);
            }
            let rule = self.rule_of(meaning);
            self.rows.unsupported += u64::from(rule == Rule::UNSUPPORTED);
            self.add(start, rule);
            before = Some((start, meaning));
        }
        self.add(fde.end_address(), Rule::NONE);
        Ok(())
    }

    const fn is_full(&self) -> bool {
        self.rows.rows.len() >= self.most
    }

    fn rule_of(&mut self, meaning: Meaning) -> Rule {
        let full = match meaning {
            Meaning::Short(rule) | Meaning::Popped(rule) => return rule,
            Meaning::Full(full) => full,
            Meaning::Unknown => return Rule::UNSUPPORTED,
        };
        self.full.number(full)
    }

    fn add(&mut self, svma: u64, rule: Rule) {
        self.rows.rows.extend(svma.checked_sub(self.base).and_then(|place| pack(place, rule)));
    }
}

/// Sorts, lets a real row win over the end of the stretch before it, and drops rows that repeat their neighbour.
fn tidy(mut rows: Vec<u64>) -> Vec<u64> {
    let is_none = |row: u64| Rule((row & 0xffff_ffff) as u32).kind() == rule::NONE;
    rows.sort_by_key(|&row| (row >> 32, !is_none(row)));
    // In place: the rows of a large library are tens of megabytes.
    rows.dedup_by(|row, before| {
        let same = *row >> 32 == *before >> 32;
        if same {
            *before = *row;
        }
        same
    });
    rows.dedup_by_key(|row| *row & 0xffff_ffff);
    rows.shrink_to_fit();
    rows
}

#[cfg(test)]
mod tests {
    use super::{ElfFacts, File, add_entry, build_rows};
    use crate::arch::tests::{LIBC_RETURNS_FROM_SIGNALS, library};
    use crate::elf::read_eh_frame;
    use tracer_ebpf::rows::{Operand, Rule, base, rule};

    /// Stacks begin in a function that is said to be the first of a coroutine: the code before and behind it keeps its rules.
    #[test]
    fn stacks_that_begin_in_a_function() {
        let rule = |offset| Rule::pack(rule::SP, offset, 0).unwrap();
        let rows = [(0x10, rule(8)), (0x20, rule(16)), (0x24, rule(8)), (0x40, Rule::NONE)];
        let rows = rows.map(|(place, rule)| super::pack(place, rule).unwrap());
        let mut rows = super::Rows { rows: rows.to_vec(), ..super::Rows::default() };
        rows.begin_stacks(0x20..0x30);
        let found = [0x10, 0x1f, 0x20, 0x24, 0x2f, 0x30, 0x40].map(|place| rows.rule(place).0);
        let outermost = super::OUTERMOST;
        assert_eq!(found, [rule(8), rule(8), outermost, outermost, outermost, rule(8), Rule::NONE]);
    }

    /// libc's table has thousands of sorted rows, nearly all expressible, and begins below its first function with nothing.
    #[test]
    fn libc_has_rows() {
        let file = library("libc.so.6");
        let base = ElfFacts::read(&file, &[]).unwrap().base;
        let rows = build_rows(&read_eh_frame(&file).unwrap().unwrap(), base);
        assert!(rows.rows.len() > 10_000, "{}", rows.rows.len());
        assert!(rows.rows.is_sorted());
        assert_eq!(rows.damaged, 0);
        assert!(rows.unsupported * 100 < rows.rows.len() as u64, "{}", rows.unsupported);
        let kinds: std::collections::BTreeSet<u32> =
            rows.rows.iter().map(|row| Rule((row & 0xffff_ffff) as u32).kind()).collect();
        for kind in [rule::SP, rule::FP, rule::OUTERMOST, rule::NONE] {
            assert!(kinds.contains(&kind), "{kind}");
        }
        assert_eq!(kinds.contains(&rule::SIGNAL), LIBC_RETURNS_FROM_SIGNALS);
    }

    /// Read by parts, a file has the rows of its whole section, in little memory.
    #[test]
    fn rows_by_parts() {
        // A large program that is surely here: one part is not several.
        let file = File::open(env!("CARGO")).unwrap();
        let section = read_eh_frame(&file).unwrap().unwrap();
        assert!(section.data.len() > 1 << 20, "{}", section.data.len());
        let sources = super::with_elf(&file, |elf| super::Sources::read(&file, elf)).unwrap();
        let mut frames = super::FrameFile::at(&file, sources.frames.unwrap()).unwrap();
        let parts = super::rows_of(&mut frames, 0, super::Work::of_file(&file, &sources.facts));
        let whole = build_rows(&section, 0);
        assert!(whole.rows.len() > 10_000 && whole.rows == parts.rows && whole.full == parts.full);
        assert_eq!((whole.damaged, whole.unsupported), (parts.damaged, parts.unsupported));
        assert!(!parts.too_many);
    }

    /// The entry point is the outermost frame, where there is no unwind information for it, up to the next function.
    #[test]
    fn entry_points() {
        let row = |at: u64, kind: u32| at << 32 | u64::from(kind << 28);
        let with = |rows: &[u64], entry| {
            let mut rows = rows.to_vec();
            add_entry(&mut rows, entry);
            rows
        };
        let (none, rsp, outermost) = (rule::NONE, rule::SP, rule::OUTERMOST);
        let near = [row(8, rsp), row(16, none), row(40, rsp)];
        assert_eq!(with(&near, 24), [row(8, rsp), row(16, none), row(24, outermost), row(40, rsp)]);
        assert_eq!(with(&near, 16), [row(8, rsp), row(16, outermost), row(40, rsp)]);
        assert_eq!(with(&near, 9), near);
        assert_eq!(with(&near, 0), near);
        let first = [row(4, outermost), row(8, rsp), row(16, none), row(40, rsp)];
        assert_eq!(with(&near, 4), first);
        assert_eq!(with(&[row(200, rsp)], 100), [row(100, outermost), row(164, none), row(200, rsp)]);
    }

    /// Damaged sections give fewer rows, never a panic.
    #[test]
    fn damaged_sections() {
        let file = library("libm.so.6");
        let mut section = read_eh_frame(&file).unwrap().unwrap();
        for at in (0..section.data.len()).step_by(section.data.len() / 200 + 1) {
            section.data[at] ^= 0x5a;
        }
        build_rows(&section, 0);
        section.data.truncate(1001);
        build_rows(&section, 0);
    }

    /// The packed rule gives back what was put in, negative offsets included.
    #[test]
    fn rules_survive_packing() {
        for (offset, fp) in [(8, 0), (16, -16), (-8, -8), (32760 * 8, -256 * 8), (0, 255 * 8)] {
            for down in [0, 8, 56] {
                let rule = Rule::pack(rule::FP, offset, fp).unwrap().saving_callee_saved(down).unwrap();
                assert_eq!((rule.kind(), rule.offset(), rule.fp()), (rule::FP, offset, fp));
                assert_eq!(rule.callee_saved_down(), down as u64);
            }
        }
        let rule = Rule::pack(rule::FP, 8, 0).unwrap();
        assert_eq!(
            (rule.saving_callee_saved(64), rule.saving_callee_saved(-8), rule.saving_callee_saved(4)),
            (None, None, None)
        );
        assert_eq!((Rule::full(65535).kind(), Rule::full(65535).index()), (rule::FULL, 65535));
        for (offset, word) in [(-8, true), (i32::MIN, false), (i32::MAX, true)] {
            let operand =
                if word { Operand::word(base::CFA, offset) } else { Operand::sum(base::CFA, offset) };
            assert_eq!((operand.base(), operand.offset()), (base::CFA, i64::from(offset)));
            assert_eq!(operand.is_word(), word);
        }
        assert_eq!(Rule::pack(rule::SP, 4, 0), None);
        assert_eq!(Rule::pack(rule::SP, 32768 * 8, 0), None);
    }
}
