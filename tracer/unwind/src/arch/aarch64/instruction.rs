//! Instructions as far as ways through code need them: where code goes on behind each, and which are none of a function's.
//!
//! Source: Arm ARM DDI 0487J, C4.1. Leaves out what they do to the stack (`frame_state.rs`).

use crate::code_rule::Flow;

/// Functions that are made at run time begin where a page does, or at multiples of so many bytes.
pub(crate) const PAGE: u64 = 4096;
/// See above.
pub(crate) const ALIGNED: u64 = 4;
/// Bytes of an instruction.
const BYTES: u64 = 4;
/// `ret`, `nop`.
const NOP: u32 = 0xd503_201f;

/// What instructions do is told by themselves.
pub(crate) struct Effects;

impl Effects {
    pub(crate) const fn new() -> Self {
        Self
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(super) word: u32,
    at: u64,
}

/// The instruction at the beginning of some code, which is at `at`; of less than four bytes one that ends it.
pub(crate) fn decode(code: &[u8], at: u64) -> Instruction {
    Instruction { word: code.first_chunk().map_or(0, |word| u32::from_le_bytes(*word)), at }
}

/// Where code goes on behind it.
pub(crate) const fn flow(does: &Instruction) -> Flow {
    let word = does.word;
    match word >> 24 {
        0x14..=0x17 => Flow::Jump(does.leads(word, 26)),
        0x94..=0x97 => Flow::Call,
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => Flow::Branch(does.leads(word >> 5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => Flow::Branch(does.leads(word >> 5, 14)),
        0xd6 | 0xd7 => match word >> 21 & 0xf {
            0 | 8 => Flow::Computed,
            1 | 9 => Flow::Call,
            2 => Flow::Return,
            _ => Flow::Unknown,
        },
        0xd4 if matches!(word >> 21 & 7, 1 | 2) => Flow::Ends,
        0 if word >> 16 == 0 => Flow::Ends,
        _ => Flow::Next,
    }
}

impl Instruction {
    /// Where the lowest bits of a number lead, a signed count of instructions.
    const fn leads(&self, number: u32, bits: u32) -> u64 {
        let distance = (number << (32 - bits)).cast_signed() >> (32 - bits);
        self.at.wrapping_add_signed(distance as i64 * 4)
    }
}

/// Address of the next instruction.
pub(crate) const fn next(does: &Instruction) -> u64 {
    does.at.saturating_add(BYTES)
}

/// Bytes of an instruction.
pub(crate) const fn length(_does: &Instruction) -> u64 {
    BYTES
}

/// Whether it saves a register that its function has to give back as it was (AAPCS64 §6.1.1), or the return address: `stp` and `str` to the stack.
pub(crate) const fn saves_register(does: &Instruction) -> bool {
    let word = does.word;
    let is_pair = word & 0xfe40_0000 == 0xa800_0000;
    let is_one = word & 0xffc0_0000 == 0xf900_0000 || word & 0xffe0_0000 == 0xf800_0000;
    let is_callers = matches!(word & 31, 19..=30);
    (is_pair || is_one) && word >> 5 & 31 == 31 && is_callers
}

/// Whether it does nothing: `nop`, `bti`.
pub(crate) const fn is_padding(does: &Instruction) -> bool {
    does.word == NOP || does.word & 0xffff_ff3f == 0xd503_241f
}

/// Whether it stands between functions.
pub(crate) const fn is_between_functions(does: &Instruction) -> bool {
    is_padding(does) || does.word == 0
}

/// Whether a function may begin behind this byte: the last of a return or a jump by a register, of `nop`, or of a word of zeros.
pub(crate) const fn may_end_function(byte: u8) -> bool {
    matches!(byte, 0xd6 | 0xd5 | 0x00)
}

/// Whether an instruction begins at a place of some code: the kernel probes none that is not aligned.
pub(crate) const fn begins_at(_code: &[u8], _place: usize) -> bool {
    true
}

/// Where some code, which begins at `start`, says that code begins: what it calls directly, and what it takes the address of. Only places that
/// are wanted are given.
pub(crate) fn named_places(
    code: &[u8],
    start: u64,
    is_wanted: impl Fn(u64) -> bool,
) -> impl Iterator<Item = u64> {
    let words = (start..).step_by(4).zip(code.chunks_exact(4));
    let calls = words.filter_map(|(at, bytes)| {
        let does = decode(bytes, at);
        (does.word & 0xfc00_0000 == 0x9400_0000).then(|| does.leads(does.word, 26))
    });
    calls.chain(super::load::addresses(code, start)).filter(move |&at| is_wanted(at))
}

#[cfg(test)]
mod tests {
    use super::{Flow, decode, flow, is_padding, named_places, saves_register};

    fn at(word: u32) -> super::Instruction {
        decode(&word.to_le_bytes(), 0x1000)
    }

    /// Branches forward and back, calls, returns with and without a signature, and what ends a way.
    #[test]
    fn where_code_goes_on() {
        let cases = [
            (0x1400_0002, Flow::Jump(0x1008)),
            (0x17ff_ffff, Flow::Jump(0xffc)),
            (0x9400_0002, Flow::Call),
            (0x5400_0041, Flow::Branch(0x1008)),
            (0xb4ff_ffe0, Flow::Branch(0xffc)),
            (0x3700_0040, Flow::Branch(0x1008)),
            (0xd61f_0200, Flow::Computed),
            (0xd63f_0020, Flow::Call),
            (0xd73f_0801, Flow::Call),
            (0xd65f_03c0, Flow::Return),
            (0xd65f_0bff, Flow::Return),
            (0xd420_0020, Flow::Ends),
            (0, Flow::Ends),
            (0xd400_0001, Flow::Next),
            (0xa9bf_7bfd, Flow::Next),
        ];
        for (word, expected) in cases {
            assert_eq!(flow(&at(word)), expected, "{word:x}");
        }
    }

    /// What is saved on the stack, and what does nothing.
    #[test]
    fn saved_and_padding() {
        assert!([0xa9bf_7bfd, 0xa901_53f3, 0xf81f_0ffe].iter().all(|&word| saves_register(&at(word))));
        assert!(![0xa900_07e0, 0xa8c1_7bfd, 0xa900_7800].iter().any(|&word| saves_register(&at(word))));
        assert!([0xd503_201f, 0xd503_245f, 0xd503_24df].iter().all(|&word| is_padding(&at(word))));
        assert!(!is_padding(&at(0xd503_233f)));
    }

    /// Calls, and addresses that are taken.
    #[test]
    fn named() {
        // bl 0x1010; adrp x0, 0x2000; add x0, x0, #0x20
        let code: Vec<u8> =
            [0x9400_0004_u32, 0xb000_0000, 0x9100_8000].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(named_places(&code, 0x1000, |_| true).collect::<Vec<_>>(), [0x1010, 0x2020]);
        assert_eq!(named_places(&code, 0x1000, |at| at == 0x2020).count(), 1);
    }
}
