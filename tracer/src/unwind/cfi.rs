//! `.eh_frame` to unwind rows: what the compiler says about finding the caller, eight bytes for each stretch of code.
//!
//! Sources: DWARF 5 §6.4; LSB Core 5.0 §10.6 (`.eh_frame`); System V ABI AMD64 1.0 §3.6 (register numbers). Leaves out every register
//! but `rsp`, `rbp`, `rbx` and the return address; what a rule means for rows is in `cfi_rule`.

use super::cfi_rule::{Meaning, Reader, SAVED_AT_RBP, meaning_of};
use super::elf::{EhFrame, ElfFacts, read_eh_frame};
use gimli::{BaseAddresses, CieOrFde, EhFrame as Section, LittleEndian, UnwindContext, UnwindSection as _};
use std::collections::HashMap;
use std::path::Path;
use tracer_ebpf::rows::{FullRule, Operand, Rule, rule};

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
pub fn function_starts(path: &Path) -> Vec<u64> {
    let (Ok(facts), Ok(Some(section))) = (ElfFacts::read(path, &[]), read_eh_frame(path)) else {
        return Vec::new();
    };
    let eh_frame = Section::new(&section.data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.svma);
    let mut cies = Cies::new();
    let mut starts = Vec::new();
    let mut entries = eh_frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = parse_fde(&partial, &mut cies) {
            starts.extend(facts.file_offset(fde.initial_address()));
        }
    }
    starts.sort_unstable();
    starts
}

/// Makes rows of a section. `base` is the lowest address of the file (SVMA): rows are relative to it.
pub fn build_rows(section: &EhFrame, base: u64) -> Rows {
    let eh_frame = Section::new(&section.data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.svma);
    let mut context = UnwindContext::new();
    let mut cies = Cies::new();
    let mut out = Builder { base, ..Builder::default() };
    let mut entries = eh_frame.entries(&bases);
    loop {
        match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => {
                let fde = parse_fde(&partial, &mut cies);
                let done = fde.and_then(|fde| out.add_fde(&eh_frame, &bases, &fde, &mut context));
                out.rows.damaged += u64::from(done.is_err());
            }
            Ok(Some(CieOrFde::Cie(_))) => (),
            Ok(None) => break,
            Err(_) => {
                out.rows.damaged += 1; // The rest cannot be found without this entry's length.
                break;
            }
        }
    }
    Rows { rows: tidy(out.rows.rows), ..out.rows }
}

/// Parses an FDE; its CIE, which most share, once.
fn parse_fde<'a>(
    partial: &gimli::PartialFrameDescriptionEntry<'_, Section<Reader<'a>>, Reader<'a>>,
    cies: &mut Cies<'a>,
) -> gimli::Result<gimli::FrameDescriptionEntry<Reader<'a>>> {
    partial.parse(|section, bases, offset| {
        if let Some(cie) = cies.get(&offset.0) {
            return Ok(cie.clone());
        }
        let cie = section.cie_from_offset(bases, offset)?;
        cies.insert(offset.0, cie.clone());
        Ok(cie)
    })
}

/// Rows that are being made.
#[derive(Default)]
struct Builder {
    base: u64,
    rows: Rows,
    /// Place of each rule in full.
    places: HashMap<FullRule, u16>,
}

impl Builder {
    fn add_fde<'a>(
        &mut self,
        eh_frame: &Section<Reader<'a>>,
        bases: &BaseAddresses,
        fde: &gimli::FrameDescriptionEntry<Reader<'a>>,
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
        if let Some(&place) = self.places.get(&full) {
            return Rule::full(place);
        }
        let Ok(place) = u16::try_from(self.rows.full.len()) else { return Rule::UNSUPPORTED };
        self.rows.full.push(full);
        self.places.insert(full, place);
        Rule::full(place)
    }

    fn add(&mut self, svma: u64, rule: Rule) {
        let pc = svma.checked_sub(self.base).and_then(|pc| u32::try_from(pc).ok());
        self.rows.rows.extend(pc.map(|pc| u64::from(pc) << 32 | u64::from(rule.0)));
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
    use super::{ElfFacts, Path, build_rows, read_eh_frame};
    use tracer_ebpf::rows::{Rule, rule};

    /// libc's table has thousands of sorted rows, nearly all expressible, and begins below its first function with nothing.
    #[test]
    fn libc_has_rows() {
        let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        let base = ElfFacts::read(path, &[]).unwrap().base;
        let rows = build_rows(&read_eh_frame(path).unwrap().unwrap(), base);
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

    /// Damaged sections give fewer rows, never a panic.
    #[test]
    fn damaged_sections() {
        let path = Path::new("/lib/x86_64-linux-gnu/libm.so.6");
        let mut section = read_eh_frame(path).unwrap().unwrap();
        for at in (0..section.data.len()).step_by(section.data.len() / 200 + 1) {
            section.data[at] ^= 0x5a;
        }
        build_rows(&section, 0);
        section.data.truncate(1001);
        build_rows(&section, 0);
    }
}
