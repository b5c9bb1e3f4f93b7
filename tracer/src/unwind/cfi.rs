//! `.eh_frame` to unwind rows: what the compiler says about finding the caller, eight bytes for each stretch of code.
//!
//! Sources: DWARF 5 §6.4; LSB Core 5.0 §10.6 (`.eh_frame`); System V ABI AMD64 1.0 §3.6 (register numbers). Leaves out every register
//! but `rsp`, `rbp`, `rbx` and the return address; what a rule means for rows is in `cfi_rule`.

use super::cfi_rule::{Meaning, Reader, SAVED_AT_RBP, meaning_of};
use super::eh_frame::{FrameBytes, FrameFile, Next, read_entries};
use super::elf::{EhFrame, ElfError, ElfFacts};
use gimli::{BaseAddresses, EhFrame as Section, LittleEndian, UnwindContext, UnwindSection as _};
use std::collections::HashMap;
use std::fs::File;
use tracer_ebpf::rows::{FullRule, Operand, Rule, rule};

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
}

/// Where the functions of a file begin, as file offsets in order, by its unwind information; empty where there is none.
pub fn function_starts(file: &File) -> Vec<u64> {
    let Ok(facts) = ElfFacts::read(file, &[]) else { return Vec::new() };
    let Ok(Some(mut section)) = FrameFile::find(file) else { return Vec::new() };
    let mut starts = Vec::new();
    each_fde(&mut section, |_, _, fde| {
        starts.extend(fde.ok().and_then(|fde| facts.file_offset(fde.initial_address())));
    });
    starts.sort_unstable();
    starts
}

/// Makes rows of a section. `base` is the lowest address of the file (SVMA): rows are relative to it.
pub fn build_rows(mut section: &EhFrame, base: u64) -> Rows {
    rows_of(&mut section, base)
}

/// Makes rows of a file, of which only a part is in memory at a time; none where it has no unwind information.
///
/// # Errors
/// Where it cannot be read, or is no ELF file.
pub fn read_rows(file: &File, base: u64) -> Result<Rows, ElfError> {
    let section = FrameFile::find(file)?;
    Ok(section.map(|mut section| rows_of(&mut section, base)).unwrap_or_default())
}

fn rows_of(section: &mut impl FrameBytes, base: u64) -> Rows {
    let mut context = UnwindContext::new();
    let mut out = Builder { base, ..Builder::default() };
    let whole = each_fde(section, |frames, bases, fde| {
        let done = fde.and_then(|fde| out.add_fde(frames, bases, &fde, &mut context));
        out.rows.damaged += u64::from(done.is_err());
    });
    out.rows.damaged += u64::from(!whole);
    out.finish()
}

/// Gives the FDEs of a section in their order. Whether it could be read to its end.
fn each_fde(
    section: &mut impl FrameBytes,
    mut take: impl FnMut(&Section<Reader<'_>>, &BaseAddresses, gimli::Result<Fde<'_>>),
) -> bool {
    let bases = BaseAddresses::default().set_eh_frame(section.svma());
    let mut entries = Vec::new();
    let mut next = Next::At(0);
    while let Next::At(at) = next {
        next = read_entries(section, at, &mut entries);
        let frames = Section::new(section.bytes(), LittleEndian);
        let mut cies = Cies::new();
        for entry in &entries {
            if entry.common {
                if frames.cie_from_offset(&bases, entry.at.into()).is_err() {
                    return false;
                }
                continue;
            }
            let Ok(partial) = frames.partial_fde_from_offset(&bases, entry.at.into()) else { return false };
            take(&frames, &bases, parse_fde(&partial, &mut cies));
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
    let mut builder = Builder { base, ..Builder::default() };
    builder.add_fde(eh_frame, bases, fde, context)?;
    Ok(builder.finish().rule(svma.wrapping_sub(base)))
}

/// The outermost frame.
pub(super) const OUTERMOST: Rule = Rule(rule::OUTERMOST << 28);

impl Rows {
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

/// Rules in full, each once.
#[derive(Debug, Default)]
pub struct FullRules {
    rules: Vec<FullRule>,
    places: HashMap<FullRule, u16>,
}

impl FullRules {
    /// Leads to a rule by its place here; where there is no place for another one, its code cannot be unwound.
    pub fn number(&mut self, full: FullRule) -> Rule {
        if let Some(&place) = self.places.get(&full) {
            return Rule::full(place);
        }
        let Ok(place) = u16::try_from(self.rules.len()) else { return Rule::UNSUPPORTED };
        self.rules.push(full);
        self.places.insert(full, place);
        Rule::full(place)
    }

    /// The rule at a place.
    pub fn get(&self, place: u32) -> Option<FullRule> {
        self.rules.get(place as usize).copied()
    }
}

/// Rows that are being made.
#[derive(Default)]
struct Builder {
    base: u64,
    rows: Rows,
    full: FullRules,
}

impl Builder {
    /// The rows, in order.
    fn finish(self) -> Rows {
        Rows { rows: tidy(self.rows.rows), full: self.full.rules, ..self.rows }
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
            if start >= fde.end_address() {
                break; // Code that was cut off leaves rules behind its end; what follows may have none.
            }
            let meaning = if signal { Meaning::SIGNAL } else { meaning_of(row, eh_frame) };
            if let (Some((from, Meaning::Full(full))), Meaning::Popped(_)) = (before, meaning) {
                self.add_popped(from, start, full);
            }
            let rule = self.rule_of(meaning);
            self.rows.unsupported += u64::from(rule == Rule::UNSUPPORTED);
            self.add(start, rule);
            before = Some((start, meaning));
        }
        self.add(fde.end_address(), Rule::NONE);
        Ok(())
    }

    /// A function that realigned its stack has popped `rbp` and `rbx` before its last `lea -8(%r10), %rsp`, of four bytes, and gcc does not
    /// say so: from there they are unchanged.
    fn add_popped(&mut self, from: u64, end: u64, full: FullRule) {
        const LEA_BYTES: u64 = 4;
        if full.rbp == SAVED_AT_RBP && !full.cfa.is_word() && end.saturating_sub(from) > LEA_BYTES {
            let popped = FullRule { rbp: Operand::SAME, rbx: Operand::SAME, ..full };
            let rule = self.rule_of(Meaning::Full(popped));
            self.add(end - LEA_BYTES, rule);
        }
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
    use super::{ElfFacts, File, add_entry, build_rows, read_rows};
    use crate::unwind::elf::read_eh_frame;
    use tracer_ebpf::rows::{Rule, rule};

    /// libc's table has thousands of sorted rows, nearly all expressible, and begins below its first function with nothing.
    #[test]
    fn libc_has_rows() {
        let file = File::open("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
        let base = ElfFacts::read(&file, &[]).unwrap().base;
        let rows = build_rows(&read_eh_frame(&file).unwrap().unwrap(), base);
        assert!(rows.rows.len() > 10_000, "{}", rows.rows.len());
        assert!(rows.rows.is_sorted());
        assert_eq!(rows.damaged, 0);
        assert!(rows.unsupported * 100 < rows.rows.len() as u64, "{}", rows.unsupported);
        let kinds: std::collections::BTreeSet<u32> =
            rows.rows.iter().map(|row| Rule((row & 0xffff_ffff) as u32).kind()).collect();
        for kind in [rule::RSP, rule::RBP, rule::SIGNAL, rule::OUTERMOST, rule::NONE] {
            assert!(kinds.contains(&kind), "{kind}");
        }
    }

    /// Read by parts, a file has the rows of its whole section, in little memory.
    #[test]
    fn rows_by_parts() {
        // This program: one part is not several.
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let section = read_eh_frame(&file).unwrap().unwrap();
        assert!(section.data.len() > 1 << 20, "{}", section.data.len());
        let (whole, parts) = (build_rows(&section, 0), read_rows(&file, 0).unwrap());
        assert!(whole.rows.len() > 10_000 && whole.rows == parts.rows && whole.full == parts.full);
        assert_eq!((whole.damaged, whole.unsupported), (parts.damaged, parts.unsupported));
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
        let (none, rsp, outermost) = (rule::NONE, rule::RSP, rule::OUTERMOST);
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
        let file = File::open("/lib/x86_64-linux-gnu/libm.so.6").unwrap();
        let mut section = read_eh_frame(&file).unwrap().unwrap();
        for at in (0..section.data.len()).step_by(section.data.len() / 200 + 1) {
            section.data[at] ^= 0x5a;
        }
        build_rows(&section, 0);
        section.data.truncate(1001);
        build_rows(&section, 0);
    }
}
