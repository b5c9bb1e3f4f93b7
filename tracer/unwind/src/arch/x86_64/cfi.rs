//! The meaning of a row of `.eh_frame`.
//!
//! Sources: System V ABI AMD64 1.0 §3.6 (register numbers); DWARF 5 §2.5 (expressions, which are known by their form, not carried out). Leaves
//! out every register but `rsp`, `rbp`, `rbx` and the return address, and expressions that only hand-written assembly has.

use gimli::{
    CfaRule, EhFrame as Section, EndianSlice, LittleEndian, Register, RegisterRule, UnwindExpression,
    UnwindTableRow, X86_64,
};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// What gimli reads rows from.
pub(crate) fn section<'a>(bytes: &'a [u8]) -> Section<Reader<'a>> {
    Section::new(bytes, LittleEndian)
}

/// The word where `rbp` points: how functions that realigned their stack keep the caller's `rbp`.
const SAVED_AT_FP: Operand = Operand::word(base::FP, 0);

/// A rule's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It fits a row.
    Short(Rule),
    /// It fits a row, and what a realigned function pushed is popped.
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

/// A function that realigned its stack has popped `rbp` and `rbx` before its last `lea -8(%r10), %rsp`, of four bytes, and gcc does not
/// say so: from there they are unchanged. Where that is, `full` holding from `from` to `end`, and what holds then.
pub(crate) fn popped_before(from: u64, end: u64, full: FullRule) -> Option<(u64, FullRule)> {
    const LEA_BYTES: u64 = 4;
    let pops = full.fp == SAVED_AT_FP && !full.cfa.is_word() && end.saturating_sub(from) > LEA_BYTES;
    let popped = FullRule { fp: Operand::SAME, callee_saved: Operand::SAME, ..full };
    pops.then(|| (end - LEA_BYTES, popped))
}

/// The meaning of a row.
pub(crate) fn meaning_of(row: &UnwindTableRow<usize>, section: &Section<Reader<'_>>) -> Meaning {
    if matches!(row.register(X86_64::RA), Some(RegisterRule::Undefined)) {
        return Rule::pack(rule::OUTERMOST, 0, 0).map_or(Meaning::Unknown, Meaning::Short);
    }
    if let Some(plt) = plt_rule(row, section) {
        return Meaning::Short(plt);
    }
    let Some(full) = full_rule(row, section) else { return Meaning::Unknown };
    if full.cfa.base() == base::SP && !full.cfa.is_word() && full.fp == SAVED_AT_FP {
        // gcc forgets to say that a function that realigned its stack has popped `rbp` and `rbx` once its CFA is by `rsp` again.
        let popped = FullRule { fp: Operand::SAME, callee_saved: Operand::SAME, ..full };
        return short_rule(&popped).map_or(Meaning::Full(popped), Meaning::Popped);
    }
    short_rule(&full).map_or(Meaning::Full(full), Meaning::Short)
}

/// The PLT's expression, in its two forms.
fn plt_rule(row: &UnwindTableRow<usize>, section: &Section<Reader<'_>>) -> Option<Rule> {
    let CfaRule::Expression(expression) = row.cfa() else { return None };
    match expression.get(section).ok()?.0.slice() {
        // breg7 8, breg16 0, lit15, and, lit11 | lit10, ge, lit3, shl, plus.
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 8, 0),
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 0, 0),
        _ => None,
    }
}

/// A row in full; `None` where an operand cannot say it.
fn full_rule(row: &UnwindTableRow<usize>, section: &Section<Reader<'_>>) -> Option<FullRule> {
    // Whoever says where the stack pointer was saved does not mean the CFA.
    if !matches!(row.register(X86_64::RSP), None | Some(RegisterRule::ValOffset(0))) {
        return None;
    }
    let (cfa, add) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (sum(*register, *offset)?, 0),
        CfaRule::Expression(expression) => parse_address(expression, section)?,
    };
    let saved = |register| -> Option<Operand> {
        Some(match row.register(register) {
            Some(RegisterRule::Undefined) if register == X86_64::RBX => LOST,
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Operand::SAME,
            Some(RegisterRule::Offset(offset)) => Operand::word(base::CFA, i32::try_from(offset).ok()?),
            Some(RegisterRule::ValOffset(offset)) => Operand::sum(base::CFA, i32::try_from(offset).ok()?),
            Some(RegisterRule::Register(other)) => sum(other, 0)?,
            // The expression is the address where the value was saved.
            Some(RegisterRule::Expression(expression)) => match parse_address(&expression, section)? {
                (at, 0) if !at.is_word() => Operand::word(at.base(), i32::try_from(at.offset()).ok()?),
                _ => return None,
            },
            Some(_) => return None,
        })
    };
    let ra = saved(X86_64::RA).filter(|&ra| ra != Operand::SAME)?;
    // What was saved for `rbx` may be said in a way that is not known: then it is not known, which only few callers mind.
    let callee_saved = saved(X86_64::RBX).unwrap_or(LOST);
    Some(FullRule { cfa, add, ra, fp: saved(X86_64::RBP)?, callee_saved })
}

/// A value that no walk finds: not a word, so that its place is not known.
const LOST: Operand = Operand::sum(base::CFA, 0);

fn sum(register: Register, offset: i64) -> Option<Operand> {
    let number = u32::from(register.0);
    Some(Operand::sum(Some(number).filter(|&n| n <= base::LAST)?, i32::try_from(offset).ok()?))
}

/// The eight bytes of a rule, where they can say it.
fn short_rule(full: &FullRule) -> Option<Rule> {
    if full.ra != Operand::word(base::CFA, -8) {
        return None;
    }
    let offset = full.cfa.offset();
    let kind = match (full.cfa.base(), full.cfa.is_word(), full.add) {
        (base::SP, false, 0) => rule::SP,
        (base::FP, false, 0) => rule::FP,
        (base::SP, true, 0) => rule::DEREF_SP,
        (base::SP, true, 8) => rule::DEREF_SP_8,
        (base::FP, true, 0) if full.fp == SAVED_AT_FP => {
            return Rule::pack(rule::DEREF_FP, offset, 0)?
                .saving_callee_saved(-below(full.callee_saved, base::FP)?);
        }
        _ => return None,
    };
    let callee_saved = match below(full.callee_saved, base::CFA)? {
        0 => 0,
        -8 => return None, // It would read as "unchanged".
        down => -8 - down,
    };
    Rule::pack(kind, offset, below(full.fp, base::CFA)?)?.saving_callee_saved(callee_saved)
}

/// Bytes from a base to where a register was saved; 0: it is unchanged.
fn below(saved: Operand, from: u32) -> Option<i64> {
    if saved == Operand::SAME {
        return Some(0);
    }
    (saved.is_word() && saved.base() == from && saved.offset() != 0).then(|| saved.offset())
}

/// An expression that adds to a register, reads the word there, and adds to that.
fn parse_address(
    expression: &UnwindExpression<usize>,
    section: &Section<Reader<'_>>,
) -> Option<(Operand, i64)> {
    decode_address(expression.get(section).ok()?.0.slice())
}

fn decode_address(code: &[u8]) -> Option<(Operand, i64)> {
    const BREG0: u8 = 0x70;
    const DEREF: u8 = 0x06;
    const PLUS_UCONST: u8 = 0x23;
    let (&first, rest) = code.split_first()?;
    let number = first.checked_sub(BREG0).map(u32::from).filter(|&number| number <= base::LAST)?;
    let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (offset, rest) = rest.split_at_checked(length)?;
    let offset = i32::try_from(sleb128(offset)?).ok()?;
    match rest {
        [] => Some((Operand::sum(number, offset), 0)),
        [DEREF] => Some((Operand::word(number, offset), 0)),
        [DEREF, PLUS_UCONST, add @ 0..0x80] => Some((Operand::word(number, offset), i64::from(*add))),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::{LOST, SAVED_AT_FP, decode_address, short_rule, sleb128};
    use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

    /// A function that saved `rbp` and `rbx` below its return address.
    const COMMON: FullRule = FullRule {
        cfa: Operand::sum(base::SP, 64),
        add: 0,
        ra: Operand::word(base::CFA, -8),
        fp: Operand::word(base::CFA, -16),
        callee_saved: Operand::word(base::CFA, -56),
    };

    /// Common rules fit eight bytes; what they cannot say stays a rule in full, rather than half a rule.
    #[test]
    fn what_fits_eight_bytes() {
        let rule = short_rule(&COMMON).unwrap();
        assert_eq!(
            (rule.kind(), rule.offset(), rule.fp(), rule.callee_saved_down()),
            (rule::SP, 64, -16, 48)
        );
        let same = FullRule { fp: Operand::SAME, callee_saved: Operand::SAME, ..COMMON };
        assert_eq!(short_rule(&same), Rule::pack(rule::SP, 64, 0));
        let realigned = FullRule {
            cfa: Operand::word(base::FP, -40),
            fp: SAVED_AT_FP,
            callee_saved: Operand::word(base::FP, -48),
            ..COMMON
        };
        let rule = short_rule(&realigned).unwrap();
        assert_eq!((rule.kind(), rule.offset(), rule.callee_saved_down()), (rule::DEREF_FP, -40, 48));
        for other in [
            FullRule { cfa: Operand::sum(10, 0), ..COMMON },
            FullRule { cfa: Operand::sum(base::SP, 12), ..COMMON },
            FullRule { cfa: Operand::word(base::SP, 16), add: 64, ..COMMON },
            FullRule { ra: Operand::sum(5, 0), ..COMMON },
            FullRule { fp: Operand::word(base::CFA, 0), ..COMMON },
            FullRule { fp: Operand::sum(9, 0), ..COMMON },
            FullRule { callee_saved: Operand::word(base::CFA, -72), ..COMMON },
            FullRule { callee_saved: Operand::word(base::CFA, 8), ..COMMON },
            FullRule { callee_saved: Operand::word(base::CFA, -8), ..COMMON },
            FullRule { callee_saved: LOST, ..COMMON },
            FullRule { callee_saved: Operand::word(base::FP, 8), ..realigned },
            FullRule { fp: Operand::SAME, ..realigned },
        ] {
            assert_eq!(short_rule(&other), None, "{other:x?}");
        }
    }

    /// Expressions of the known form, with and without the word and what is added to it; others are refused.
    #[test]
    fn expressions() {
        assert_eq!(decode_address(&[0x76, 0]), Some((Operand::sum(base::FP, 0), 0)));
        assert_eq!(decode_address(&[0x76, 0x58, 6]), Some((Operand::word(base::FP, -40), 0)));
        assert_eq!(decode_address(&[0x77, 0x90, 2, 6, 0x23, 8]), Some((Operand::word(base::SP, 272), 8)));
        for code in [&[][..], &[0x77], &[0x77, 0x80], &[0x80, 0], &[0x6f, 0], &[0x77, 8, 6, 0x23, 0x88, 1]] {
            assert_eq!(decode_address(code), None, "{code:x?}");
        }
        assert_eq!(decode_address(&[0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 6, 0x23, 8]), None);
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
}
