//! `.eh_frame` to unwind rows: what the compiler says about finding the caller, eight bytes for each stretch of code.
//!
//! Sources: DWARF 5 §6.4; LSB Core 5.0 §10.6 (`.eh_frame`); System V ABI AMD64 1.0 §3.6 (register numbers). Leaves out every register
//! but `rsp`, `rbp` and the return address.

use super::elf::{EhFrame, ElfFacts, read_eh_frame};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame as Section, EndianSlice, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection as _, UnwindTableRow, X86_64,
};
use std::collections::HashMap;
use std::path::Path;
use tracer_ebpf::rows::{Rule, rule};

pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Cies<'a> = HashMap<usize, gimli::CommonInformationEntry<Reader<'a>>>;

/// Rows of one file, sorted, with what could not be expressed.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The rows, see `tracer_ebpf::rows`.
    pub rows: Vec<u64>,
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
    let mut out = Rows::default();
    let mut entries = eh_frame.entries(&bases);
    loop {
        match entries.next() {
            Ok(Some(CieOrFde::Fde(partial))) => {
                let fde = parse_fde(&partial, &mut cies);
                let done = fde.and_then(|fde| add_fde(&eh_frame, &bases, &fde, base, &mut context, &mut out));
                out.damaged += u64::from(done.is_err());
            }
            Ok(Some(CieOrFde::Cie(_))) => (),
            Ok(None) => break,
            Err(_) => {
                out.damaged += 1; // The rest cannot be found without this entry's length.
                break;
            }
        }
    }
    out.rows = tidy(std::mem::take(&mut out.rows));
    out
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

fn add_fde<'a>(
    eh_frame: &Section<Reader<'a>>,
    bases: &BaseAddresses,
    fde: &gimli::FrameDescriptionEntry<Reader<'a>>,
    base: u64,
    context: &mut UnwindContext<usize>,
    out: &mut Rows,
) -> gimli::Result<()> {
    if fde.len() == 0 || fde.initial_address() < base {
        return Ok(()); // Left behind by the linker for discarded code.
    }
    let signal = fde.is_signal_trampoline();
    let mut table = fde.rows(eh_frame, bases, context)?;
    while let Some(row) = table.next_row()? {
        if row.start_address() >= fde.end_address() {
            break; // Code that was cut off leaves rules behind its end; what follows may have none.
        }
        let rule = if signal { Rule::pack(rule::SIGNAL, 0, 0) } else { rule_of(row, eh_frame) };
        out.unsupported += u64::from(rule.is_none());
        out.rows.extend(pack(row.start_address(), base, rule.unwrap_or(UNSUPPORTED)));
    }
    out.rows.extend(pack(fde.end_address(), base, NONE));
    Ok(())
}

/// Bytes of the code at an entry point: the dynamic loader's, the longest, has 60.
pub(super) const ENTRY_BYTES: u64 = 64;

/// Adds a row for the entry point (relative to the file's lowest address), where rows say that there is no unwind information: nobody
/// called it, so that its frame is the outermost. The dynamic loader's says nothing of itself (glibc, sysdeps/x86_64/dl-machine.h,
/// `RTLD_START`).
pub fn add_entry(rows: &mut Vec<u64>, entry: u64) {
    let after = rows.partition_point(|row| row >> 32 <= entry);
    let (before, behind) = rows.split_at(after);
    let is_none = |row: &u64| *row & 0xffff_ffff == u64::from(NONE.0);
    if entry == 0 || !before.last().is_none_or(is_none) {
        return;
    }
    let next = behind.first().map_or(u64::MAX, |row| row >> 32);
    let end = next.min(entry.saturating_add(ENTRY_BYTES));
    let mut new: Vec<u64> = pack(entry, 0, OUTERMOST).into_iter().collect();
    new.extend(pack(end, 0, NONE).filter(|_| end < next));
    let same = before.last().is_some_and(|row| row >> 32 == entry);
    rows.splice(after - usize::from(same)..after, new);
}

/// The rule of one FDE at an address (SVMA) that lies in it.
pub(super) fn rule_at<'a>(
    eh_frame: &Section<Reader<'a>>,
    bases: &BaseAddresses,
    fde: &gimli::FrameDescriptionEntry<Reader<'a>>,
    context: &mut UnwindContext<usize>,
    svma: u64,
) -> gimli::Result<Rule> {
    let row = fde.unwind_info_for_address(eh_frame, bases, context, svma)?;
    let rule =
        if fde.is_signal_trampoline() { Rule::pack(rule::SIGNAL, 0, 0) } else { rule_of(row, eh_frame) };
    Ok(rule.unwrap_or(UNSUPPORTED))
}

const UNSUPPORTED: Rule = Rule(rule::UNSUPPORTED << 27);
pub(super) const OUTERMOST: Rule = Rule(rule::OUTERMOST << 27);
pub(super) const NONE: Rule = Rule(rule::NONE << 27);

fn pack(svma: u64, base: u64, rule: Rule) -> Option<u64> {
    let pc = u32::try_from(svma.checked_sub(base)?).ok()?;
    Some(u64::from(pc) << 32 | u64::from(rule.0))
}

/// The rule of a row; `None` where it does not fit.
fn rule_of(row: &UnwindTableRow<usize>, eh_frame: &Section<Reader<'_>>) -> Option<Rule> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::pack(rule::OUTERMOST, 0, 0),
        Some(RegisterRule::Offset(-8)) => (),
        _ => return None,
    }
    match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            // At the `ret` of a function that realigned its stack, gcc has popped `rbp` and forgets to say so.
            let popped = (*register, *offset) == (X86_64::RSP, 8) && saved_at_rbp(row, eh_frame);
            let rbp = if popped { 0 } else { rbp_slot(row)? };
            let kind = match *register {
                X86_64::RSP => rule::RSP,
                X86_64::RBP => rule::RBP,
                _ => return None,
            };
            Rule::pack(kind, *offset, rbp)
        }
        CfaRule::Expression(expression) => {
            let expression = expression.get(eh_frame).ok()?;
            expression_rule(expression.0.slice(), row, eh_frame)
        }
    }
}

/// Bytes from the CFA to where the caller's `rbp` was saved; 0: it is unchanged. `None` where neither holds.
fn rbp_slot(row: &UnwindTableRow<usize>) -> Option<i64> {
    match row.register(X86_64::RBP) {
        Some(RegisterRule::Offset(offset)) if offset != 0 => Some(offset),
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(0),
        _ => None,
    }
}

/// The expressions that occur: the PLT's, and the CFA kept in memory next to `rbp` (stacks realigned by gcc) or `rsp`.
fn expression_rule(code: &[u8], row: &UnwindTableRow<usize>, eh_frame: &Section<Reader<'_>>) -> Option<Rule> {
    const BREG6: u8 = 0x76;
    const BREG7: u8 = 0x77;
    const DEREF: u8 = 0x06;
    const PLUS_UCONST: u8 = 0x23;
    match code {
        // breg7 8, breg16 0, lit15, and, lit11 | lit10, ge, lit3, shl, plus.
        [BREG7, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 8, 0),
        [BREG7, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 0, 0),
        [BREG6, offset @ .., DEREF] if saved_at_rbp(row, eh_frame) => {
            Rule::pack(rule::DEREF_RBP, sleb128(offset)?, 0)
        }
        [BREG7, offset @ .., DEREF] => Rule::pack(rule::DEREF_RSP, sleb128(offset)?, rbp_slot(row)?),
        [BREG7, offset @ .., DEREF, PLUS_UCONST, 8] => {
            Rule::pack(rule::DEREF_RSP_8, sleb128(offset)?, rbp_slot(row)?)
        }
        _ => None,
    }
}

/// Whether the caller's `rbp` lies where `rbp` points: `DW_OP_breg6 0`, which goes with a realigned stack.
fn saved_at_rbp(row: &UnwindTableRow<usize>, eh_frame: &Section<Reader<'_>>) -> bool {
    match row.register(X86_64::RBP) {
        Some(RegisterRule::Expression(e)) => e.get(eh_frame).is_ok_and(|e| e.0.slice() == [0x76, 0]),
        _ => false,
    }
}

/// A signed LEB128 number that fills the slice.
fn sleb128(bytes: &[u8]) -> Option<i64> {
    let (last, rest) = bytes.split_last()?;
    if bytes.len() > 5 || last & 0x80 != 0 || rest.iter().any(|b| b & 0x80 == 0) {
        return None;
    }
    let value = bytes.iter().rev().fold(0i64, |value, byte| value << 7 | i64::from(byte & 0x7f));
    let bits = 7 * u32::try_from(bytes.len()).ok()?;
    Some(value << (64 - bits) >> (64 - bits))
}

/// Sorts, lets a real row win over the end of the stretch before it, and drops rows that repeat their neighbour.
fn tidy(mut rows: Vec<u64>) -> Vec<u64> {
    let is_none = |row: u64| Rule((row & 0xffff_ffff) as u32).kind() == rule::NONE;
    rows.sort_by_key(|&row| (row >> 32, !is_none(row)));
    let mut out: Vec<u64> = Vec::with_capacity(rows.len());
    for row in rows {
        if out.last().is_some_and(|last| last >> 32 == row >> 32) {
            out.pop();
        }
        if out.last().is_none_or(|last| last & 0xffff_ffff != row & 0xffff_ffff) {
            out.push(row);
        }
    }
    out.shrink_to_fit();
    out
}

#[cfg(test)]
mod tests {
    use super::{ElfFacts, Path, add_entry, build_rows, read_eh_frame, sleb128};
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

    /// The packed rule gives back what was put in, negative offsets included.
    #[test]
    fn rules_survive_packing() {
        for (offset, rbp) in [(8, 0), (16, -16), (-8, -8), (32760 * 8, -1024 * 8), (0, 1023 * 8)] {
            let rule = Rule::pack(rule::RBP, offset, rbp).unwrap();
            assert_eq!((rule.kind(), rule.offset(), rule.rbp()), (rule::RBP, offset, rbp));
        }
        assert_eq!(Rule::pack(rule::RSP, 4, 0), None);
        assert_eq!(Rule::pack(rule::RSP, 32768 * 8, 0), None);
    }

    /// Signed LEB128 of one and two bytes; anything that does not fill the slice is refused.
    #[test]
    fn leb128() {
        assert_eq!(sleb128(&[0x78]), Some(-8));
        assert_eq!(sleb128(&[0xa0, 0x01]), Some(160));
        assert_eq!(sleb128(&[0x80, 0x7f]), Some(-128));
        assert_eq!(sleb128(&[0x80]), None);
        assert_eq!(sleb128(&[0x08, 0x08]), None);
        assert_eq!(sleb128(&[]), None);
    }

    /// The entry point is the outermost frame, where there is no unwind information for it, up to the next function.
    #[test]
    fn entry_points() {
        let row = |at: u64, kind: u32| at << 32 | u64::from(kind << 27);
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
