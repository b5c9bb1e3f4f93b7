//! What instructions do to a function's stack, to `x29` and to `x30`: how its caller is found at each of them.
//!
//! Sources: AAPCS64 2023Q3 (`x29` is given back as it was; a return address comes in `x30`), Arm ARM DDI 0487J, C4.1. Followed are how deep the
//! stack pointer is, what `x29` is, and where both registers were saved. Leaves out what other registers hold: a function that moves its stack
//! pointer by a number that only the run knows keeps a frame pointer, or is not known.

use super::instruction::{Effects, Instruction, flow};
use crate::code_rule::{CodeRule, Flow};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

const FP: u32 = 29;
const LINK: u32 = 30;
const SP: u32 = 31;

/// The state before an instruction. Depths are bytes below the canonical frame address (CFA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameState {
    /// Of the stack pointer; `None` where it depends on the run, and `x29` is a frame pointer.
    depth: Option<i64>,
    fp: FramePointer,
    /// Of the place where the caller's `x29` was saved.
    saved_fp: Option<i64>,
    /// Whether `x30` is the return address.
    has_link: bool,
    /// Of the place where that was saved.
    saved_link: Option<i64>,
}

/// What `x29` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePointer {
    /// The caller's.
    Callers,
    /// It points so many bytes below the CFA.
    Pointer(i64),
    /// Something else.
    Other,
}

/// Words that are stored or loaded by a register and a number.
#[derive(Clone, Copy, Debug)]
struct Access {
    is_load: bool,
    /// The registers, of 64 bits, and the second of a pair; `SP` stands for one that is not followed.
    registers: [u32; 2],
    by: u32,
    /// From the register, once it has changed, to the first word; `None` where parts of registers are moved.
    at: Option<i64>,
    /// What the register is changed by.
    moves: i64,
}

impl FrameState {
    /// Behind the call.
    pub(crate) const ENTRY: Self =
        Self { depth: Some(0), fp: FramePointer::Callers, saved_fp: None, has_link: true, saved_link: None };

    /// How deep the stack pointer is, where that is known.
    pub(crate) const fn depth(&self) -> Option<i64> {
        self.depth
    }

    /// Whether everything is as the caller left it.
    pub(crate) fn is_given_back(&self) -> bool {
        self.depth == Some(0) && self.fp == FramePointer::Callers && self.has_link
    }

    /// Where two ways meet: what is true on both; `None` where they contradict each other.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        if (self.saved_fp, self.saved_link) != (other.saved_fp, other.saved_link) {
            return None;
        }
        let depth = self.depth.filter(|_| self.depth == other.depth);
        let fp = if self.fp == other.fp { self.fp } else { FramePointer::Other };
        Self { depth, fp, has_link: self.has_link && other.has_link, ..self }.checked()
    }

    /// The rule that holds here.
    pub(crate) fn rule(&self) -> CodeRule {
        let (kind, from, offset) = match (self.fp, self.depth) {
            (FramePointer::Pointer(above), _) => (rule::FP, base::FP, above),
            (_, Some(depth)) => (rule::SP, base::SP, depth),
            (_, None) => return CodeRule::NONE,
        };
        let short = match (self.saved_fp, self.saved_link) {
            (Some(fp), Some(link)) if link == fp - 8 => Rule::pack(kind, offset, -fp),
            (None, None) if self.has_link && self.fp == FramePointer::Callers => Rule::pack(kind, offset, 0),
            _ => None,
        };
        let full = || self.full_rule(from, offset).map(CodeRule::Full);
        short.map(CodeRule::Short).or_else(full).unwrap_or(CodeRule::NONE)
    }

    fn full_rule(&self, from: u32, offset: i64) -> Option<FullRule> {
        let word = |depth: i64| i32::try_from(-depth).ok().map(|at| Operand::word(base::CFA, at));
        let ra = match self.saved_link {
            Some(depth) => word(depth)?,
            None if self.has_link => Operand::sum(LINK, 0),
            None => return None,
        };
        let fp = match self.saved_fp {
            Some(depth) => word(depth)?,
            None if self.fp == FramePointer::Callers => Operand::SAME,
            None => return None,
        };
        let cfa = Operand::sum(from, i32::try_from(offset).ok()?);
        Some(FullRule { cfa, add: 0, ra, fp, callee_saved: Operand::SAME })
    }

    /// Whether a function goes on where nothing is known: none does.
    pub(crate) const fn leaves(&self, _does: &Instruction) -> bool {
        false
    }

    /// The state behind an instruction that goes on; `None` where nothing is known of it.
    pub(crate) fn after(self, does: &Instruction, _info: &mut Effects) -> Option<Self> {
        let word = does.word;
        if flow(does) == Flow::Call {
            return Self { has_link: false, ..self }.checked();
        }
        let next = match (access(word), moved(word)) {
            (Some(access), _) => self.accessed(access),
            (None, Some((to, from, by))) => self.pointed(to, from, by),
            (None, None) => written(word).into_iter().fold(self, Self::lost),
        };
        next.checked()
    }

    /// How deep the place is that a register points to, plus a number.
    const fn place(&self, by: u32, at: i64) -> Option<i64> {
        match (by, self.fp, self.depth) {
            (SP, _, Some(depth)) => depth.checked_sub(at),
            (FP, FramePointer::Pointer(depth), _) => depth.checked_sub(at),
            _ => None,
        }
    }

    /// Behind a load or a store.
    fn accessed(self, access: Access) -> Self {
        let moved = if access.moves == 0 { self } else { self.pointed(access.by, access.by, access.moves) };
        let mut next = moved;
        for (words, register) in (0..).zip(access.registers) {
            let place = access.at.and_then(|at| moved.place(access.by, at + 8 * words));
            next = if access.is_load { next.loaded(register, place) } else { next.stored(register, place) };
        }
        next
    }

    /// Behind a store: the first one of what is the caller's saves it.
    fn stored(mut self, register: u32, place: Option<i64>) -> Self {
        let place = place.filter(|&place| place > 0);
        if register == FP && self.fp == FramePointer::Callers {
            self.saved_fp = self.saved_fp.or(place);
        }
        if register == LINK && self.has_link {
            self.saved_link = self.saved_link.or(place);
        }
        self
    }

    /// Behind a load: from where it was saved a register is what it was.
    fn loaded(mut self, register: u32, place: Option<i64>) -> Self {
        match register {
            FP if place.is_some() && place == self.saved_fp => self.fp = FramePointer::Callers,
            LINK if place.is_some() && place == self.saved_link => self.has_link = true,
            SP => (),
            other => return self.lost(other),
        }
        self
    }

    /// Behind an instruction that makes a register another one plus a number.
    fn pointed(mut self, to: u32, from: u32, by: i64) -> Self {
        let place = self.place(from, by);
        match to {
            SP => self.depth = place,
            FP => self.fp = place.map_or(FramePointer::Other, FramePointer::Pointer),
            other => return self.lost(other),
        }
        self
    }

    /// Behind an instruction that writes something else to a register.
    const fn lost(mut self, to: u32) -> Self {
        match to {
            SP => self.depth = None,
            FP => self.fp = FramePointer::Other,
            LINK => self.has_link = false,
            _ => (),
        }
        self
    }

    /// It, if it is one that compilers make. What was saved is forgotten once it is no longer on the stack.
    fn checked(mut self) -> Option<Self> {
        let is_given_back =
            |place: Option<i64>| self.depth.zip(place).is_some_and(|(depth, place)| place > depth);
        let (fp, link) = (is_given_back(self.saved_fp), is_given_back(self.saved_link));
        if fp && self.fp != FramePointer::Callers || link && !self.has_link {
            return None;
        }
        self.saved_fp = self.saved_fp.filter(|_| !fp);
        self.saved_link = self.saved_link.filter(|_| !link);
        let is_known = match self.fp {
            FramePointer::Callers => self.depth.is_some(),
            FramePointer::Pointer(above) => above > 0 && self.saved_fp.is_some(),
            FramePointer::Other => self.depth.is_some() && self.saved_fp.is_some(),
        };
        (is_known && self.depth.is_none_or(|depth| depth >= 0)).then_some(self)
    }
}

/// Loads and stores by a register and a number.
fn access(word: u32) -> Option<Access> {
    let is_pair = word >> 27 & 7 == 0b101 && word >> 25 & 1 == 0;
    let is_one = word >> 27 & 7 == 0b111;
    let is_float = word >> 26 & 1 == 1;
    let scale: i64 = match (is_pair, is_float, word >> 30) {
        (true, true, kind) => 4 << kind,
        (true, false, kind) => 4 << (kind >> 1),
        (false, _, kind) => 1 << kind,
    };
    let (number, order) = if is_pair {
        (i64::from((word << 10).cast_signed() >> 25) * scale, word >> 23 & 3)
    } else if is_one && word >> 24 & 3 == 1 {
        (i64::from(word >> 10 & 0xfff) * scale, 0)
    } else if is_one && word >> 24 & 3 == 0 && word >> 21 & 1 == 0 {
        (i64::from((word << 11).cast_signed() >> 23), word >> 10 & 3)
    } else {
        return None;
    };
    let is_load = if is_pair { word >> 22 & 1 == 1 } else { word >> 22 & 3 != 0 };
    // The register changes afterwards, before, or not.
    let (at, moves) = match order {
        1 => (-number, number),
        3 => (0, number),
        _ => (number, 0),
    };
    let is_whole = !is_float && scale == 8;
    let second = if is_pair { word >> 10 & 31 } else { SP };
    let registers = if is_whole || is_load && !is_float { [word & 31, second] } else { [SP, SP] };
    Some(Access { is_load, registers, by: word >> 5 & 31, at: is_whole.then_some(at), moves })
}

/// `add` and `sub` of a number, of 64 bits: to which register, from which, and how much.
fn moved(word: u32) -> Option<(u32, u32, i64)> {
    if word & 0xbf80_0000 != 0x9100_0000 {
        return None;
    }
    let number = i64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
    let by = if word >> 30 & 1 == 1 { -number } else { number };
    Some((word & 31, word >> 5 & 31, by))
}

/// Registers that any other instruction may write, of those that are followed.
fn written(word: u32) -> Vec<u32> {
    const PACIA: u32 = 0xdac1;
    let to = word & 31;
    let is_followed = |register: &u32| matches!(*register, FP | LINK);
    match word >> 25 & 0xf {
        // Numbers: some of them write to `sp`.
        0b1000 | 0b1001 => {
            let logical = word & 0x1f80_0000 == 0x1200_0000 && word >> 29 & 3 != 3;
            let sum = word & 0x1f80_0000 == 0x1100_0000 && word >> 29 & 1 == 0;
            [to].into_iter()
                .filter(|register| is_followed(register) || *register == SP && (logical || sum))
                .collect()
        }
        // Signatures leave an address what it is.
        0b0101 | 0b1101 if word >> 16 == PACIA => Vec::new(),
        0b0101 | 0b1101 => {
            let extended = word & 0x1fe0_0000 == 0x0b20_0000 && word >> 29 & 1 == 0;
            [to].into_iter().filter(|register| is_followed(register) || *register == SP && extended).collect()
        }
        // Other loads and stores: exclusive ones, and those by two registers.
        0b0100 | 0b0110 | 0b1100 | 0b1110 => {
            [to, word >> 10 & 31, word >> 16 & 31].into_iter().filter(is_followed).collect()
        }
        // Between vectors and the processor's own registers.
        0b0111 | 0b1111 if word & 0x5f20_fc00 == 0x1e20_0000 || word & 0xbfe0_ec00 == 0x0e00_2c00 => {
            [to].into_iter().filter(is_followed).collect()
        }
        // `mrs`.
        0b1010 if word >> 20 == 0xd53 => [to].into_iter().filter(is_followed).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, FrameState};
    use crate::arch::instruction::decode;
    use crate::code_rule::CodeRule;
    use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

    /// Rules before each of these instructions and behind the last; fewer where one is not understood.
    fn rules(words: &[u32]) -> Vec<CodeRule> {
        let mut state = Some(FrameState::ENTRY);
        let mut found = vec![FrameState::ENTRY.rule()];
        for word in words {
            let does = decode(&word.to_le_bytes(), 0);
            state = state.and_then(|state| state.after(&does, &mut Effects::new()));
            found.extend(state.map(|state| state.rule()));
        }
        found
    }

    fn short(kind: u32, offset: i64, fp: i64) -> CodeRule {
        CodeRule::Short(Rule::pack(kind, offset, fp).unwrap())
    }

    const BARE: u32 = rule::SP;

    /// gcc's usual frame, signed: the pair at the low end, a register more, a call, and all of it given back.
    #[test]
    fn the_usual_frame() {
        let words = [
            0xd503_233f, // paciasp
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0x9100_03fd, // mov x29, sp
            0xf900_0bf3, // str x19, [sp, #16]
            0x9400_0010, // bl
            0xf940_0bf3, // ldr x19, [sp, #16]
            0xa8c2_7bfd, // ldp x29, x30, [sp], #32
            0xd503_23bf, // autiasp
        ];
        let (bare, framed) = (short(BARE, 0, 0), short(rule::FP, 32, -32));
        let expected = [bare, bare, short(rule::SP, 32, -32), framed, framed, framed, framed, bare, bare];
        assert_eq!(rules(&words), expected);
    }

    /// clang's: `sub sp`, the pair at the high end; and a stack of any depth, which `x29` leads back from.
    #[test]
    fn frames_of_clang() {
        let words = [
            0xd101_03ff, // sub sp, sp, #64
            0xa903_7bfd, // stp x29, x30, [sp, #48]
            0x9100_c3fd, // add x29, sp, #48
            0xcb20_63ff, // sub sp, sp, x0
            0x9400_0010, // bl
            0xd100_c3bf, // sub sp, x29, #48
            0xa943_7bfd, // ldp x29, x30, [sp, #48]
            0x9101_03ff, // add sp, sp, #64
        ];
        let framed = short(rule::FP, 16, -16);
        let expected = [
            short(BARE, 0, 0),
            short(rule::SP, 64, 0),
            short(rule::SP, 64, -16),
            framed,
            framed,
            framed,
            framed,
            short(rule::SP, 64, -16),
            short(BARE, 0, 0),
        ];
        assert_eq!(rules(&words), expected);
    }

    /// A return address that is saved alone is a rule in full; saved vectors change the stack pointer and nothing else.
    #[test]
    fn the_return_address_alone() {
        let words = [
            0x6dbf_27e8, // stp d8, d9, [sp, #-16]!
            0xf81f_0ffe, // str x30, [sp, #-16]!
            0x9400_0010, // bl
            0xf841_07fe, // ldr x30, [sp], #16
            0x6cc1_27e8, // ldp d8, d9, [sp], #16
        ];
        let alone = CodeRule::Full(FullRule {
            cfa: Operand::sum(base::SP, 32),
            add: 0,
            ra: Operand::word(base::CFA, -32),
            fp: Operand::SAME,
            callee_saved: Operand::SAME,
        });
        let moved = short(rule::SP, 16, 0);
        assert_eq!(rules(&words), [short(BARE, 0, 0), moved, alone, alone, moved, short(BARE, 0, 0)]);
    }

    /// Nothing is said where the stack moves by a number and nothing leads back, where `x29` is used for something else, or where the saved pair is
    /// given back without being loaded; vectors of the same numbers are no such registers.
    #[test]
    fn what_is_not_known() {
        assert_eq!(rules(&[0xcb20_63ff]).len(), 1); // sub sp, sp, x0
        assert_eq!(rules(&[0x9240_03fd]).len(), 1); // and x29, sp, …
        assert_eq!(rules(&[0xaa00_03fd]).len(), 1); // mov x29, x0
        assert_eq!(rules(&[0xa9be_7bfd, 0x9400_0010, 0x9100_83ff]).len(), 3); // stp; bl; add sp, sp, #32
        assert_eq!(rules(&[0xb940_03fd]).len(), 1); // ldr w29, [sp]
        assert_eq!(rules(&[0x4e20_d41d]).len(), 2); // fadd v29.4s, v0.4s, v0.4s
        // A call without a frame: behind it the return address is nowhere.
        assert_eq!(rules(&[0x9400_0010])[1], CodeRule::NONE);
    }

    /// Where ways meet, what both say; a register that one has saved and the other has not is a contradiction.
    #[test]
    fn ways_that_meet() {
        let behind = |words: &[u32]| {
            words.iter().fold(FrameState::ENTRY, |state, word| {
                state.after(&decode(&word.to_le_bytes(), 0), &mut Effects::new()).unwrap()
            })
        };
        let framed = behind(&[0xa9be_7bfd]);
        let called = behind(&[0xa9be_7bfd, 0x9400_0010]);
        assert_eq!(framed.joined(called), Some(called));
        assert_eq!(framed.joined(FrameState::ENTRY), None);
        assert!(FrameState::ENTRY.is_given_back() && !called.is_given_back());
    }
}
