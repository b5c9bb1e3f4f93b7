//! How deep the stack is in code that was made at run time, and how its callers are found, from that code: oneDNN's kernels, each of which begins where a page does, and
//! functions of LLVM (numba), which begin at multiples of 16 bytes, behind padding or another function's end.
//!
//! Such a place is tried as a function's begin, the closest to the address first. What does not begin there does not find the stack as a caller
//! left it, and all ways through a function have to stay in its code. Leaves out where the code comes from, and whether it is still the same.

use super::arch::instruction::{ALIGNED, PAGE, may_end_function};
use super::code_rows::{Budget, Known, generated_code};
use super::code_rule::CodeRule;
use super::full_rules::FullRules;
use serde::{Deserialize, Serialize};
use tracer_ebpf::rows::{FullRule, Operand, Rule, rule};

/// Bytes that a kernel may have, and how far before an address it may begin: oneDNN reserves so much for each.
pub const LARGEST: u64 = 256 << 10;
/// How far before an address a function may begin that begins in the middle of a page.
const NEAR: u64 = 16 << 10;
/// Steps that an address is worth: several times those of the largest kernel.
const MOST_STEPS: u64 = 1 << 18;

/// A function that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedFunction {
    /// Where it begins (AVMA).
    pub begin: u64,
    /// Where its last instruction ends.
    pub end: u64,
    /// What is known, from each place on, in order.
    parts: Vec<Part>,
    /// Rules in full, as numbers.
    full: Vec<Full>,
}

type Full = (u64, i64, u64, u64, u64);

/// A stretch of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    begin: u64,
    /// Bytes of the stack from its stack pointer to its caller's; 0: not known.
    depth: u32,
    /// How to find the caller, the low half of a row; a rule in full by its place in the function.
    rule: u32,
}

impl Part {
    fn new((begin, (depth, rule)): (u64, Known), full: &mut FullRules) -> Self {
        let depth = depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(0);
        let Rule(rule) = match rule {
            CodeRule::Short(rule) => rule,
            CodeRule::Full(rule) => full.number(rule),
        };
        Self { begin, depth, rule }
    }

    const fn is_known(&self) -> bool {
        self.depth != 0 || self.rule != Rule::NONE.0
    }
}

impl GeneratedFunction {
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
        found.part(at).is_some_and(Part::is_known).then_some(found)
    }

    fn begins(code: &[u8], begin: u64, budget: &mut Budget) -> Option<Self> {
        let found = generated_code(code, begin, budget)?;
        let (end, _) = *found.last()?;
        let mut full = FullRules::default();
        let parts = found.into_iter().map(|part| Part::new(part, &mut full)).collect();
        let full =
            full.into_rules().iter().map(|f| (f.cfa.0, f.add, f.ra.0, f.fp.0, f.callee_saved.0)).collect();
        Some(Self { begin, end, parts, full })
    }

    fn part(&self, at: u64) -> Option<&Part> {
        let behind = self.parts.partition_point(|part| part.begin <= at);
        self.parts.get(behind.checked_sub(1)?)
    }

    /// How far the caller's stack pointer is above that of an instruction here.
    pub fn depth(&self, at: u64) -> Option<u32> {
        self.part(at).map(|part| part.depth).filter(|&depth| depth != 0)
    }

    /// How the caller of an instruction here is found, where that fits a row.
    pub fn short_rule(&self, at: u64) -> Option<Rule> {
        let rule = self.part(at).map(|part| Rule(part.rule))?;
        (rule.kind() != rule::FULL && rule != Rule::NONE).then_some(rule)
    }

    /// Its rows, by addresses relative to `base`, and with rules in full by their places in `full`; the last says that nothing is known behind
    /// it. `None` where they lie too far away.
    pub fn rows(&self, base: u64, full: &mut FullRules) -> Option<Vec<u64>> {
        let row = |begin: u64, Rule(rule): Rule| {
            let place = u32::try_from(begin.checked_sub(base)?).ok()?;
            Some(u64::from(place) << 32 | u64::from(rule))
        };
        let last = row(self.end, Rule::NONE);
        let parts = self.parts.iter().filter(|part| (self.begin..self.end).contains(&part.begin));
        parts.map(|part| row(part.begin, self.rule(part, full))).chain([last]).collect()
    }

    /// A part's rule, by its place in `full` where it is one in full.
    fn rule(&self, part: &Part, full: &mut FullRules) -> Rule {
        let own = Rule(part.rule);
        if own.kind() != rule::FULL {
            return own;
        }
        let Some(&(cfa, add, ra, fp, callee_saved)) = self.full.get(own.index() as usize) else {
            return Rule::NONE;
        };
        let [cfa, ra, fp, callee_saved] = [cfa, ra, fp, callee_saved].map(Operand);
        full.number(FullRule { cfa, add, ra, fp, callee_saved })
    }

    /// How many bytes this takes.
    pub const fn bytes(&self) -> usize {
        self.parts.len() * size_of::<Part>() + self.full.len() * size_of::<Full>()
    }
}

/// Whether a function may begin at a place of some code: behind a return, or padding.
fn is_behind_function(code: &[u8], place: u64) -> bool {
    let before = usize::try_from(place).ok().and_then(|place| code.get(place.checked_sub(1)?));
    before.is_some_and(|&byte| may_end_function(byte))
}

#[cfg(test)]
mod tests {
    use super::{GeneratedFunction, PAGE};
    use crate::full_rules::FullRules;
    use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

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
        GeneratedFunction::find(code, START, at).and_then(|function| function.depth(at))
    }

    /// At each instruction of a kernel its code says how deep the stack is, from its first one to behind its last; also where the page of the
    /// instruction is not where it begins.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn depths_of_a_kernel() {
        let (code, begin) = (code(&[]), START + PAGE);
        let end = START + code.len() as u64;
        let places =
            [(begin, 8), (begin + 1, 16), (begin + 13, 56), (begin + 22, 88), (end - 15, 88), (end - 1, 8)];
        for (at, expected) in places {
            assert_eq!(depth(&code, at), Some(expected), "{:#x}", at - begin);
        }
        assert_eq!(
            GeneratedFunction::find(&code, START, begin + 5000).map(|f| (f.begin, f.end)),
            Some((begin, end))
        );
        assert_eq!(depth(&code, end), None);
    }

    /// A function that begins in the middle of a page is found behind the end of another one, and not where its own middle is behind padding.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn functions_in_a_page() {
        let function = [&BEGIN[..], &[0x90; 26], &END].concat();
        let mut code = [&[0x0f, 0x0b][..], &[0xcc; 94], &function, &[0xc3; 1], &function].concat();
        for (begin, at) in [(96, 96 + 40), (96 + 64, 96 + 64 + 40)] {
            let found = GeneratedFunction::find(&code, START, START + at).unwrap();
            assert_eq!((found.begin, found.depth(START + at)), (START + begin, Some(88)), "{at}");
        }
        code[96] = 0x90;
        assert_eq!(GeneratedFunction::find(&code, START, START + 96 + 40), None);
    }

    /// Nothing is known where the kernel's begin is not there, where a way leads out of the code or to a place that it does not name, where none
    /// returns, or where the stack's depth differs with the way.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn what_proves_nothing() {
        let at = START + PAGE + 3100;
        assert_eq!(depth(&code(&[0x90]), at), Some(88));
        let late = code(&[]).split_off(2 * PAGE as usize);
        assert_eq!(GeneratedFunction::find(&late, START + 2 * PAGE, START + 2 * PAGE + 100), None);
        let leaves: &[u8] = &[0x0f, 0x84, 0, 0, 0, 0x10];
        let jumps = [0xff, 0xe0];
        let ends = [0x0f, 0x0b];
        let differs = [0x74, 1, 0x50];
        for middle in [leaves, &jumps, &ends, &differs] {
            assert_eq!(depth(&code(middle), START + PAGE + 100), None, "{middle:x?}");
        }
    }

    /// Rows say how the caller is found: by the stack pointer while it is known, by the frame pointer where the stack was aligned, and nothing
    /// behind the end.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn rows_of_a_function() {
        // push %rbp; mov %rsp,%rbp; and $-32,%rsp; sub $0x340,%rsp; nop; mov %rbp,%rsp; pop %rbp; ret
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x81, 0xec, 0x40, 3, 0, 0, 0x90, 0x48,
            0x89, 0xec, 0x5d, 0xc3,
        ];
        let found = GeneratedFunction::find(&code, START, START + 15).unwrap();
        assert_eq!((found.depth(START + 15), found.depth(START + 1)), (None, Some(16)));
        let rule = |kind, offset, fp| Rule::pack(kind, offset, fp).unwrap().0;
        let rows = [
            (0, rule(rule::SP, 8, 0)),
            (1, rule(rule::SP, 16, 0)),
            (4, rule(rule::FP, 16, -16)),
            (20, rule(rule::SP, 8, 0)),
            (21, Rule::NONE.0),
        ];
        let at = |place: u64, rule: u32| (0x100 + place) << 32 | u64::from(rule);
        let mut full = FullRules::default();
        let said = found.rows(START - 0x100, &mut full).unwrap();
        for (place, rule) in rows {
            let last = said.iter().rfind(|row| **row >> 32 <= 0x100 + place).unwrap();
            assert_eq!(*last & 0xffff_ffff, u64::from(rule), "{place}: {said:x?}");
        }
        assert_eq!(said.last(), Some(&at(21, Rule::NONE.0)));
        assert!(said.is_sorted_by_key(|row| row >> 32) && found.rows(START + 1, &mut full).is_none());
        assert_eq!(found.rows(START - (1 << 32), &mut full), None);
    }

    /// oneDNN's matrix kernels for AVX and AVX2 have a stack of any depth, and keep where their frame is in a word above the stack pointer.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn rows_of_a_kernel_that_keeps_its_frame() {
        // push %rbp; mov %rsp,%rbp; push %rbx; mov %rsp,%rbp; jg 1f; sub %rax,%rsp; and $-4096,%rsp; jmp 2f; 1: sub $0x100,%rsp;
        // 2: mov %rbp,0xa0(%rsp); xor %ebp,%ebp; nop; mov 0xa0(%rsp),%rsp; pop %rbx; pop %rbp; ret
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x89, 0xe5, 0x7f, 12, 0x48, 0x29, 0xc4, 0x48, 0x81, 0xe4, 0,
            0xf0, 0xff, 0xff, 0xeb, 7, 0x48, 0x81, 0xec, 0, 1, 0, 0, 0x48, 0x89, 0xac, 0x24, 0xa0, 0, 0, 0,
            0x31, 0xed, 0x90, 0x48, 0x8b, 0xa4, 0x24, 0xa0, 0, 0, 0, 0x5b, 0x5d, 0xc3,
        ];
        let found = GeneratedFunction::find(&code, START, START + 39).unwrap();
        let mut full = FullRules::default();
        let other = FullRule { add: 1, ..FullRule::default() };
        assert_eq!(full.number(other), Rule::full(0));
        let rows = found.rows(START, &mut full).unwrap();
        let kept = Rule(*rows.iter().rfind(|row| **row >> 32 <= 39).unwrap() as u32);
        let word = |above| Operand::word(base::CFA, above);
        let expected = FullRule {
            cfa: Operand::word(base::SP, 0xa0),
            add: 24,
            ra: word(-8),
            fp: word(-16),
            callee_saved: Operand::sum(base::CFA, 0),
        };
        assert_eq!((kept.kind(), full.get(kept.index())), (rule::FULL, Some(expected)));
    }
}
