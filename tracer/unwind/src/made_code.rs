//! How deep the stack is in code that was made at run time, from that code: oneDNN's kernels, each of which begins where a page does, and
//! functions of LLVM (numba), which begin at multiples of 16 bytes, behind padding or another function's end.
//!
//! Such a place is tried as a function's begin, the closest to the address first. What does not begin there does not find the stack as a caller
//! left it, and all ways through a function have to stay in its code. Leaves out where the code comes from, and whether it is still the same.

use super::code_rows::{Budget, depths_of_made_code};
use serde::{Deserialize, Serialize};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes that a kernel may have, and how far before an address it may begin: oneDNN reserves so much for each.
pub const LARGEST: u64 = 256 << 10;
/// Functions that begin in a page begin at multiples of so many bytes, and at most so far before an address.
const ALIGNED: u64 = 16;
const NEAR: u64 = 16 << 10;
/// Steps that an address is worth: several times those of the largest kernel.
const MOST_STEPS: u64 = 1 << 18;

/// A function that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFunction {
    /// Where it begins (AVMA).
    pub begin: u64,
    /// Where its last instruction ends.
    pub end: u64,
    /// Where each depth begins, in order: bytes of the stack from its stack pointer to its caller's; 0: not known.
    depths: Vec<(u64, u32)>,
}

impl MadeFunction {
    /// The function that an address is in; `None` where the code, which begins at `start`, does not tell.
    pub fn find(code: &[u8], start: u64, at: u64) -> Option<Self> {
        let mut budget = Budget::of(MOST_STEPS);
        let begins = |step: u64, most: u64| {
            let places = (0..most / step).map_while(move |n| (at & !(step - 1)).checked_sub(n * step));
            places.take_while(move |&begin| begin >= start)
        };
        let pages = begins(PAGE, LARGEST).find_map(|begin| Self::at(code, start, begin, at, &mut budget));
        pages.or_else(|| {
            let mut behind = begins(ALIGNED, NEAR).filter(|begin| is_behind_function(code, begin - start));
            behind.find_map(|begin| Self::at(code, start, begin, at, &mut budget))
        })
    }

    /// The function that begins there and that an address is in.
    fn at(code: &[u8], start: u64, begin: u64, at: u64, budget: &mut Budget) -> Option<Self> {
        let code = code.get(usize::try_from(begin - start).ok()?..)?;
        let code = code.get(..usize::try_from(LARGEST).ok()?).unwrap_or(code);
        let found = Self::begins(code, begin, budget)?;
        found.depth(at).map(|_| found)
    }

    fn begins(code: &[u8], begin: u64, budget: &mut Budget) -> Option<Self> {
        let found = depths_of_made_code(code, begin, budget)?;
        let (end, _) = *found.last()?;
        let number = |depth: Option<i64>| depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(0);
        let depths = found.into_iter().map(|(at, depth)| (at, number(depth))).collect();
        Some(Self { begin, end, depths })
    }

    /// How far the caller's stack pointer is above that of an instruction here.
    pub fn depth(&self, at: u64) -> Option<u32> {
        let behind = self.depths.partition_point(|&(begin, _)| begin <= at);
        let (_, depth) = *self.depths.get(behind.checked_sub(1)?)?;
        (depth != 0).then_some(depth)
    }

    /// How many bytes this takes.
    pub const fn bytes(&self) -> usize {
        self.depths.len() * size_of::<(u64, u32)>()
    }
}

/// Whether a function may begin at a place of some code: behind a return, or padding, whose last byte is one of these (also of `nop`s with
/// operands).
fn is_behind_function(code: &[u8], place: u64) -> bool {
    let before = usize::try_from(place).ok().and_then(|place| code.get(place.checked_sub(1)?));
    before.is_some_and(|byte| [0x00, 0x90, 0xc3, 0xcc].contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{MadeFunction, PAGE};

    /// Where the pages begin.
    const START: u64 = 0x7f00_0000_0000;
    /// What oneDNN's kernels for AVX-512 begin with, with locals of 32 bytes (`jit_generator.hpp`, `preamble`), and how they end.
    const BEGIN: [u8; 22] = [
        0x55, 0x48, 0x89, 0xe5, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0xbd, 0, 4, 0, 0, 0x48,
        0x83, 0xec, 0x20,
    ];
    const END: [u8; 15] =
        [0x48, 0x83, 0xc4, 0x20, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d, 0xc3];

    /// A page of nothing, and a kernel of two pages with this in its middle.
    fn code(middle: &[u8]) -> Vec<u8> {
        [&[0; PAGE as usize][..], &BEGIN, &[0x90; 3000], middle, &[0x90; 3000], &END].concat()
    }

    fn depth(code: &[u8], at: u64) -> Option<u32> {
        MadeFunction::find(code, START, at).and_then(|function| function.depth(at))
    }

    /// At each instruction of a kernel its code says how deep the stack is, from its first one to behind its last; also where the page of the
    /// instruction is not where it begins.
    #[test]
    fn depths_of_a_kernel() {
        let (code, begin) = (code(&[]), START + PAGE);
        let end = START + code.len() as u64;
        let places =
            [(begin, 8), (begin + 1, 16), (begin + 13, 56), (begin + 22, 88), (end - 15, 88), (end - 1, 8)];
        for (at, expected) in places {
            assert_eq!(depth(&code, at), Some(expected), "{:#x}", at - begin);
        }
        assert_eq!(
            MadeFunction::find(&code, START, begin + 5000).map(|f| (f.begin, f.end)),
            Some((begin, end))
        );
        assert_eq!(depth(&code, end), None);
    }

    /// A function that begins in the middle of a page is found behind the end of another one, and not where its own middle is behind padding.
    #[test]
    fn functions_in_a_page() {
        let function = [&BEGIN[..], &[0x90; 26], &END].concat();
        let mut code = [&[0x0f, 0x0b][..], &[0xcc; 94], &function, &[0xc3; 1], &function].concat();
        for (begin, at) in [(96, 96 + 40), (96 + 64, 96 + 64 + 40)] {
            let found = MadeFunction::find(&code, START, START + at).unwrap();
            assert_eq!((found.begin, found.depth(START + at)), (START + begin, Some(88)), "{at}");
        }
        code[96] = 0x90;
        assert_eq!(MadeFunction::find(&code, START, START + 96 + 40), None);
    }

    /// Nothing is known where the kernel's begin is not there, where a way leads out of the code or to a place that it does not name, where none
    /// returns, or where the stack's depth differs with the way.
    #[test]
    fn what_proves_nothing() {
        let at = START + PAGE + 3100;
        assert_eq!(depth(&code(&[0x90]), at), Some(88));
        let late = code(&[]).split_off(2 * PAGE as usize);
        assert_eq!(MadeFunction::find(&late, START + 2 * PAGE, START + 2 * PAGE + 100), None);
        let leaves: &[u8] = &[0x0f, 0x84, 0, 0, 0, 0x10];
        let jumps = [0xff, 0xe0];
        let ends = [0x0f, 0x0b];
        let differs = [0x74, 1, 0x50];
        for middle in [leaves, &jumps, &ends, &differs] {
            assert_eq!(depth(&code(middle), START + PAGE + 100), None, "{middle:x?}");
        }
    }
}
