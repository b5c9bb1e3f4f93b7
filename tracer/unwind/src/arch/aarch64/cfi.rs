//! The meaning of a row of `.eh_frame`.
//!
//! Sources: DWARF for the Arm 64-bit Architecture 2023Q3, §4.1 (register numbers) and §4.4 (`DW_CFA_AARCH64_negate_ra_state`, which says that a
//! return address is signed, and that gimli reads only of a section that it knows to be this processor's). Walkers take signatures away wherever
//! they are, so that rows need not say where. Leaves out every register but `sp`, `x29` and `x30`, and expressions, which no compiler writes here.

use gimli::{
    CfaRule, EhFrame as Section, EndianSlice, LittleEndian, Register, RegisterRule, UnwindTableRow, Vendor,
};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

const FP: Register = Register(29);
const LINK: Register = Register(30);
const SP: Register = Register(31);

/// What gimli reads rows from.
pub(crate) fn section<'a>(bytes: &'a [u8]) -> Section<Reader<'a>> {
    let mut section = Section::new(bytes, LittleEndian);
    section.set_vendor(Vendor::AArch64);
    section
}

/// A rule's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It fits a row.
    Short(Rule),
    /// It fits a row, and what a realigned function pushed is popped.
    #[expect(dead_code, reason = "no compiler leaves that out on this processor")]
    Popped(Rule),
    /// It does not fit a row.
    Full(FullRule),
    /// It cannot be expressed.
    Unknown,
}

impl Meaning {
    /// A signal frame.
    pub(crate) const SIGNAL: Self = Self::Short(Rule(rule::SIGNAL << 28));
}

/// Compilers say all of a function's end on this processor.
pub(crate) const fn popped_before(_from: u64, _end: u64, _full: FullRule) -> Option<(u64, FullRule)> {
    None
}

/// The meaning of a row.
pub(crate) fn meaning_of(row: &UnwindTableRow<usize>, _section: &Section<Reader<'_>>) -> Meaning {
    if matches!(row.register(LINK), Some(RegisterRule::Undefined)) {
        return Meaning::Short(Rule(rule::OUTERMOST << 28));
    }
    short_rule(row)
        .map(Meaning::Short)
        .or_else(|| full_rule(row).map(Meaning::Full))
        .unwrap_or(Meaning::Unknown)
}

/// Where a register is that callers have to have back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saved {
    /// It is unchanged.
    No,
    /// So far from the CFA.
    At(i64),
}

fn saved(row: &UnwindTableRow<usize>, register: Register) -> Option<Saved> {
    match row.register(register) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(Saved::No),
        Some(RegisterRule::Offset(at)) => Some(Saved::At(at)),
        Some(_) => None,
    }
}

/// The kind of a rule by the stack pointer or the frame pointer, what that is to operands, and the distance to the CFA.
fn cfa(row: &UnwindTableRow<usize>) -> Option<(u32, u32, i64)> {
    match *row.cfa() {
        CfaRule::RegisterAndOffset { register: SP, offset } => Some((rule::SP, base::SP, offset)),
        CfaRule::RegisterAndOffset { register: FP, offset } => Some((rule::FP, base::FP, offset)),
        _ => None,
    }
}

/// The eight bytes of a rule, where they can say it: both registers are unchanged, or saved beside each other.
fn short_rule(row: &UnwindTableRow<usize>) -> Option<Rule> {
    let (kind, _, offset) = cfa(row)?;
    match (saved(row, FP)?, saved(row, LINK)?) {
        (Saved::No, Saved::No) => Rule::pack(kind, offset, 0),
        // A slot at the CFA itself would read as "unchanged".
        (Saved::At(fp), Saved::At(link)) if link == fp + 8 && fp != 0 => Rule::pack(kind, offset, fp),
        _ => None,
    }
}

/// A row in full. Where the return address was not saved it is in its register.
fn full_rule(row: &UnwindTableRow<usize>) -> Option<FullRule> {
    let (_, from, offset) = cfa(row)?;
    let word = |at: i64| i32::try_from(at).ok().map(|at| Operand::word(base::CFA, at));
    let ra = match saved(row, LINK)? {
        Saved::No => Operand::sum(LINK.0.into(), 0),
        Saved::At(at) => word(at)?,
    };
    let fp = match saved(row, FP)? {
        Saved::No => Operand::SAME,
        Saved::At(at) => word(at)?,
    };
    let cfa = Operand::sum(from, i32::try_from(offset).ok()?);
    Some(FullRule { cfa, add: 0, ra, fp, callee_saved: Operand::SAME })
}

#[cfg(test)]
mod tests {
    use super::{Meaning, meaning_of, section};
    use gimli::{BaseAddresses, UnwindContext, UnwindSection as _};
    use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

    /// `.eh_frame` of one function of 256 bytes at 0x1000 with these instructions; the common entry says that the CFA is `sp`.
    fn frames(program: &[u8]) -> Vec<u8> {
        let entry = |content: &[u8]| {
            let padded = content.len().next_multiple_of(4);
            let mut bytes = (padded as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(content);
            bytes.resize(4 + padded, 0);
            bytes
        };
        // Version 1, no augmentation, code by 4, data by -8, return address in x30; def_cfa sp, 0.
        let common = entry(&[0, 0, 0, 0, 1, 0, 4, 0x78, 30, 0x0c, 31, 0]);
        let back = (common.len() as u32 + 4).to_le_bytes();
        let begins = 0x1000_u64.to_le_bytes();
        let bytes = 256_u64.to_le_bytes();
        let function = entry(&[&back[..], &begins, &bytes, program].concat());
        [common, function, vec![0; 4]].concat()
    }

    /// What each row of such a function means, by its place in the function.
    fn meanings(program: &[u8]) -> gimli::Result<Vec<(u64, Meaning)>> {
        let bytes = frames(program);
        let (section, bases) = (section(&bytes), BaseAddresses::default().set_eh_frame(0));
        let fde = section.fde_for_address(&bases, 0x1000, gimli::EhFrame::cie_from_offset)?;
        let mut context = UnwindContext::new();
        let mut table = fde.rows(&section, &bases, &mut context)?;
        let mut found = Vec::new();
        while let Some(row) = table.next_row()? {
            found.push((row.start_address() - 0x1000, meaning_of(row, &section)));
        }
        Ok(found)
    }

    fn short(kind: u32, offset: i64, fp: i64) -> Meaning {
        Meaning::Short(Rule::pack(kind, offset, fp).unwrap())
    }

    /// A function as gcc compiles it with `-mbranch-protection=standard`: `paciasp`, the pair saved at the low end, `x29` made, all given back,
    /// `autiasp`. The signed stretches cost nothing, and are no damage.
    #[test]
    fn a_signed_function() {
        let program = [
            0x41, 0x2d, // advance 4; negate_ra_state
            0x41, 0x0e, 32, 0x9d, 4, 0x9e,
            3, // advance 4; def_cfa_offset 32; x29 at cfa-32, x30 at cfa-24
            0x41, 0x0d, 29, // advance 4; def_cfa_register x29
            0x50, 0x0c, 31, 0, 0xdd, 0xde, // advance 64; def_cfa sp, 0; restore x29; restore x30
            0x41, 0x2d, // advance 4; negate_ra_state
        ];
        let bare = short(rule::SP, 0, 0);
        let expected = [
            (0, bare),
            (4, bare),
            (8, short(rule::SP, 32, -32)),
            (12, short(rule::FP, 32, -32)),
            (76, bare),
            (80, bare),
        ];
        assert_eq!(meanings(&program).unwrap(), expected);
    }

    /// Where the return address alone is saved, far away, or not while a frame is there: rules in full.
    #[test]
    fn what_needs_a_rule_in_full() {
        let full = |offset, ra, fp| {
            let cfa = Operand::sum(base::SP, offset);
            Meaning::Full(FullRule { cfa, add: 0, ra, fp, callee_saved: Operand::SAME })
        };
        let word = |at| Operand::word(base::CFA, at);
        let alone = meanings(&[0x41, 0x0e, 16, 0x9e, 2]).unwrap();
        assert_eq!(alone[1], (4, full(16, word(-16), Operand::SAME)));
        // def_cfa_offset 4096; x29 at cfa-4096, x30 at cfa-4088.
        let far = meanings(&[0x41, 0x0e, 0x80, 0x20, 0x9d, 0x80, 0x04, 0x9e, 0xff, 0x03]).unwrap();
        assert_eq!(far[1], (4, full(4096, word(-4088), word(-4096))));
        let saved_other = meanings(&[0x41, 0x0e, 16, 0x9d, 2]).unwrap();
        assert_eq!(saved_other[1], (4, full(16, Operand::sum(30, 0), word(-16))));
        // A frame of no registers is a short rule: its return address is in x30.
        assert_eq!(meanings(&[0x41, 0x0e, 64]).unwrap()[1], (4, short(rule::SP, 64, 0)));
    }

    /// Thread entry points have no return address; a CFA by another register cannot be said.
    #[test]
    fn ends_and_what_is_unknown() {
        let first = meanings(&[0x07, 30]).unwrap(); // undefined x30
        assert_eq!(first, [(0, Meaning::Short(Rule(rule::OUTERMOST << 28)))]);
        assert_eq!(meanings(&[0x0c, 19, 16]).unwrap(), [(0, Meaning::Unknown)]); // def_cfa x19, 16
    }
}
