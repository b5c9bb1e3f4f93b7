//! What one rule of `.eh_frame` means for rows: eight bytes where they do, a rule in full where they do not.
//!
//! Sources: DWARF 5 §2.5 and §6.4; System V ABI AMD64 1.0 §3.6 (register numbers). Expressions are known by their form, not carried out.
//! Leaves out those that only hand-written assembly has and that add two registers.

use gimli::{
    CfaRule, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule, UnwindExpression, UnwindTableRow,
    X86_64,
};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

/// What gimli reads from.
pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The word where `rbp` points: how functions that realigned their stack keep the caller's `rbp`.
pub(super) const SAVED_AT_RBP: Operand = Operand::word(base::RBP, 0);

/// A rule's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
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
    pub(super) const SIGNAL: Self = Self::Short(Rule(rule::SIGNAL << 28));
}

/// The meaning of a row.
pub(super) fn meaning_of(row: &UnwindTableRow<usize>, section: &EhFrame<Reader<'_>>) -> Meaning {
    if matches!(row.register(X86_64::RA), Some(RegisterRule::Undefined)) {
        return Rule::pack(rule::OUTERMOST, 0, 0).map_or(Meaning::Unknown, Meaning::Short);
    }
    if let Some(plt) = plt_rule(row, section) {
        return Meaning::Short(plt);
    }
    let Some(full) = full_rule(row, section) else { return Meaning::Unknown };
    if full.cfa.base() == base::RSP && !full.cfa.is_word() && full.rbp == SAVED_AT_RBP {
        // gcc forgets to say that a function that realigned its stack has popped `rbp` and `rbx` once its CFA is by `rsp` again.
        let popped = FullRule { rbp: Operand::SAME, rbx: Operand::SAME, ..full };
        return short_rule(&popped).map_or(Meaning::Full(popped), Meaning::Popped);
    }
    short_rule(&full).map_or(Meaning::Full(full), Meaning::Short)
}

/// The PLT's expression, in its two forms.
fn plt_rule(row: &UnwindTableRow<usize>, section: &EhFrame<Reader<'_>>) -> Option<Rule> {
    let CfaRule::Expression(expression) = row.cfa() else { return None };
    match expression.get(section).ok()?.0.slice() {
        // breg7 8, breg16 0, lit15, and, lit11 | lit10, ge, lit3, shl, plus.
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 8, 0),
        [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22] => Rule::pack(rule::PLT, 0, 0),
        _ => None,
    }
}

/// A row in full; `None` where an operand cannot say it.
fn full_rule(row: &UnwindTableRow<usize>, section: &EhFrame<Reader<'_>>) -> Option<FullRule> {
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
    let rbx = saved(X86_64::RBX).unwrap_or(LOST);
    Some(FullRule { cfa, add, ra, rbp: saved(X86_64::RBP)?, rbx })
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
        (base::RSP, false, 0) => rule::RSP,
        (base::RBP, false, 0) => rule::RBP,
        (base::RSP, true, 0) => rule::DEREF_RSP,
        (base::RSP, true, 8) => rule::DEREF_RSP_8,
        (base::RBP, true, 0) if full.rbp == SAVED_AT_RBP => {
            return Rule::pack(rule::DEREF_RBP, offset, 0)?.saving_rbx(-below(full.rbx, base::RBP)?);
        }
        _ => return None,
    };
    let rbx = match below(full.rbx, base::CFA)? {
        0 => 0,
        -8 => return None, // It would read as "unchanged".
        down => -8 - down,
    };
    Rule::pack(kind, offset, below(full.rbp, base::CFA)?)?.saving_rbx(rbx)
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
    section: &EhFrame<Reader<'_>>,
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
    use super::{FullRule, LOST, SAVED_AT_RBP, decode_address, short_rule, sleb128};
    use tracer_ebpf::rows::{Operand, Rule, base, rule};

    /// A function that saved `rbp` and `rbx` below its return address.
    const COMMON: FullRule = FullRule {
        cfa: Operand::sum(base::RSP, 64),
        add: 0,
        ra: Operand::word(base::CFA, -8),
        rbp: Operand::word(base::CFA, -16),
        rbx: Operand::word(base::CFA, -56),
    };

    /// Common rules fit eight bytes; what they cannot say stays a rule in full, rather than half a rule.
    #[test]
    fn what_fits_eight_bytes() {
        let rule = short_rule(&COMMON).unwrap();
        assert_eq!((rule.kind(), rule.offset(), rule.rbp(), rule.rbx_down()), (rule::RSP, 64, -16, 48));
        let same = FullRule { rbp: Operand::SAME, rbx: Operand::SAME, ..COMMON };
        assert_eq!(short_rule(&same), Rule::pack(rule::RSP, 64, 0));
        let realigned = FullRule {
            cfa: Operand::word(base::RBP, -40),
            rbp: SAVED_AT_RBP,
            rbx: Operand::word(base::RBP, -48),
            ..COMMON
        };
        let rule = short_rule(&realigned).unwrap();
        assert_eq!((rule.kind(), rule.offset(), rule.rbx_down()), (rule::DEREF_RBP, -40, 48));
        for other in [
            FullRule { cfa: Operand::sum(10, 0), ..COMMON },
            FullRule { cfa: Operand::sum(base::RSP, 12), ..COMMON },
            FullRule { cfa: Operand::word(base::RSP, 16), add: 64, ..COMMON },
            FullRule { ra: Operand::sum(5, 0), ..COMMON },
            FullRule { rbp: Operand::word(base::CFA, 0), ..COMMON },
            FullRule { rbp: Operand::sum(9, 0), ..COMMON },
            FullRule { rbx: Operand::word(base::CFA, -72), ..COMMON },
            FullRule { rbx: Operand::word(base::CFA, 8), ..COMMON },
            FullRule { rbx: Operand::word(base::CFA, -8), ..COMMON },
            FullRule { rbx: LOST, ..COMMON },
            FullRule { rbx: Operand::word(base::RBP, 8), ..realigned },
            FullRule { rbp: Operand::SAME, ..realigned },
        ] {
            assert_eq!(short_rule(&other), None, "{other:x?}");
        }
    }

    /// Expressions of the known form, with and without the word and what is added to it; others are refused.
    #[test]
    fn expressions() {
        assert_eq!(decode_address(&[0x76, 0]), Some((Operand::sum(base::RBP, 0), 0)));
        assert_eq!(decode_address(&[0x76, 0x58, 6]), Some((Operand::word(base::RBP, -40), 0)));
        assert_eq!(decode_address(&[0x77, 0x90, 2, 6, 0x23, 8]), Some((Operand::word(base::RSP, 272), 8)));
        for code in [&[][..], &[0x77], &[0x77, 0x80], &[0x80, 0], &[0x6f, 0], &[0x77, 8, 6, 0x23, 0x88, 1]] {
            assert_eq!(decode_address(code), None, "{code:x?}");
        }
        assert_eq!(decode_address(&[0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 6, 0x23, 8]), None);
    }

    /// The packed rule gives back what was put in, negative offsets included.
    #[test]
    fn rules_survive_packing() {
        for (offset, rbp) in [(8, 0), (16, -16), (-8, -8), (32760 * 8, -256 * 8), (0, 255 * 8)] {
            for down in [0, 8, 56] {
                let rule = Rule::pack(rule::RBP, offset, rbp).unwrap().saving_rbx(down).unwrap();
                assert_eq!((rule.kind(), rule.offset(), rule.rbp()), (rule::RBP, offset, rbp));
                assert_eq!(rule.rbx_down(), down as u64);
            }
        }
        let rule = Rule::pack(rule::RBP, 8, 0).unwrap();
        assert_eq!((rule.saving_rbx(64), rule.saving_rbx(-8), rule.saving_rbx(4)), (None, None, None));
        assert_eq!((Rule::full(65535).kind(), Rule::full(65535).index()), (rule::FULL, 65535));
        for (offset, word) in [(-8, true), (i32::MIN, false), (i32::MAX, true)] {
            let operand =
                if word { Operand::word(base::CFA, offset) } else { Operand::sum(base::CFA, offset) };
            assert_eq!((operand.base(), operand.offset()), (base::CFA, i64::from(offset)));
            assert_eq!(operand.is_word(), word);
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
}
