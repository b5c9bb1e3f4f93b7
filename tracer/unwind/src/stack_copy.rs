//! Unwinds a raw capture: the walker of the probes over a copy of the stack instead of the stack.
//!
//! The steps, the scan and the way to go on at the interpreter's frame are those of `tracer_ebpf::native`; only the loops around them are
//! written again, because the probes' are made of the kernel's helpers. What lies outside the copy is read where it cannot have changed
//! (code, from its file), and nowhere else: the thread ran on, and words of its live stack would be those of another moment.

use std::cell::Cell;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{self, Found, MAX_RECOVERED, NativeFrame, NativeWalk, Tables};
use tracer_ebpf::saved_stack_pointer::{leave_kernel, saved_stack_pointer};
use tracer_ebpf::scan::{follow_frame_pointer, is_outermost};
use tracer_ebpf::wire::{FIRST_PC, MAX_FRAMES, PAGE_BYTES, PythonLayout, RAW_PAGES, end};

/// Bytes above the end of a copy that are believed to be the same stack: the usual limit of a stack.
const STACK_LIMIT: u64 = 8 << 20;

/// A copy of the stack, and what else does not change.
pub struct StackCopy<'a, Code> {
    /// Address of its first byte.
    base: u64,
    bytes: &'a [u8],
    /// A bit for each page of it, the lowest for the first: 0 where the page could not be read.
    pages: u32,
    /// Words of code by address.
    code: Code,
    /// The address that could not be read last.
    failed: Cell<u64>,
}

impl<'a, Code: Fn(u64) -> Option<u64>> StackCopy<'a, Code> {
    /// A copy from `base` on, of the pages that have a bit (`RawHead::pages`). `code` gives words of code.
    pub const fn new(base: u64, bytes: &'a [u8], pages: u32, code: Code) -> Self {
        Self { base, bytes, pages, code, failed: Cell::new(0) }
    }

    fn copied(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        if !self.has_page(at) || !self.has_page(at + 7) {
            return None;
        }
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    /// Whether the page with this byte of the copy was read.
    fn has_page(&self, at: usize) -> bool {
        u32::try_from(at / PAGE_BYTES).ok().and_then(|page| self.pages.checked_shr(page)).unwrap_or(0) & 1
            != 0
    }

    /// Why a walk ended: where memory was missing, whether that was only missing in the copy.
    fn explain(&self, code: u8) -> u8 {
        const LIMIT: u64 = (RAW_PAGES * PAGE_BYTES) as u64;
        let above = self.failed.get().wrapping_sub(self.base).wrapping_add(8);
        let beyond = above > LIMIT && above - LIMIT < STACK_LIMIT;
        if code == end::FAULT && beyond { end::BEYOND_COPY } else { code }
    }
}

impl<Code: Fn(u64) -> Option<u64>> Memory for StackCopy<'_, Code> {
    fn read_word(&self, address: u64) -> Option<u64> {
        let word = self.copied(address).or_else(|| (self.code)(address));
        if word.is_none() {
            self.failed.set(address);
        }
        word
    }

    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        let words = (0..u64::from(bytes / 8)).map(|word| self.read_word(address.wrapping_add(8 * word)));
        words.zip(out).all(|(word, out)| word.map(|word| *out = word).is_some())
    }
}

/// Where a walk that lost its way may go on.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    /// Anchors of Python runs, innermost first.
    pub places: Vec<u64>,
    /// From an anchor to the CFA of its frame; 0: not known.
    pub eval_cfa: u32,
    /// From that CFA down to the saved frame pointer; 0: nowhere.
    pub eval_fp: u32,
}

/// Native frames, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The frames and bridged gaps, as in a sample (`wire::FIRST_PC`).
    pub native: Vec<NativeFrame>,
    /// Why they end, a `wire::end`.
    pub end: u8,
    /// Gaps that were bridged.
    pub recovered: u8,
    /// Callers that were believed without proof.
    pub guessed: u8,
    /// Where the caller of the interrupted code is one of these: its stack pointer's bytes above the interrupted one; else 0.
    pub guess_depth: u16,
}

/// Walks from the registers of the interrupted instruction. At most `MAX_FRAMES` frames between two gaps, at most `MAX_RECOVERED` gaps.
pub fn walk<Code: Fn(u64) -> Option<u64>>(
    from: NativeWalk,
    anchors: &Anchors,
    tables: &mut impl Tables,
    memory: &StackCopy<'_, Code>,
) -> Walked {
    let mut walk = from;
    let mut out = Walked::default();
    for recovered in 0..=MAX_RECOVERED {
        out.end = run(&mut walk, tables, memory, &mut out.native);
        let over = matches!(out.end, end::COMPLETE | end::TOO_DEEP) || recovered == MAX_RECOVERED;
        if over || !recover(&mut walk, anchors, tables, memory, &mut out) {
            break;
        }
        out.recovered += 1;
    }
    out
}

/// Walks on until it ends; why.
fn run<Code: Fn(u64) -> Option<u64>>(
    walk: &mut NativeWalk,
    tables: &mut impl Tables,
    memory: &StackCopy<'_, Code>,
    frames: &mut Vec<NativeFrame>,
) -> u8 {
    for _ in 0..MAX_FRAMES {
        let (frame, code) = native::step(walk, tables, memory);
        // Else a word of the program's would be read as a mark of ours.
        if frame.pc >= FIRST_PC {
            frames.push(frame);
        }
        if code != end::RUNNING {
            return memory.explain(code);
        }
    }
    end::TOO_DEEP
}

/// Bridges a gap: by the return address of code without unwind information, else at the interpreter's next frame.
fn recover<Code: Fn(u64) -> Option<u64>>(
    walk: &mut NativeWalk,
    anchors: &Anchors,
    tables: &mut impl Tables,
    memory: &StackCopy<'_, Code>,
    out: &mut Walked,
) -> bool {
    if out.end == end::NO_UNWIND_INFO {
        if scan(walk, tables, memory, out) {
            return true;
        }
        if is_outermost(walk) {
            out.end = end::COMPLETE;
            end_last_frame(out, u64::MAX);
            return false;
        }
    }
    let layout =
        PythonLayout { eval_cfa: anchors.eval_cfa, eval_fp: anchors.eval_fp, ..PythonLayout::default() };
    let next = anchors.places.iter().copied().find(|&anchor| anchor > walk.sp);
    let resumed = next.filter(|_| anchors.eval_cfa != 0).and_then(|a| native::resume(a, &layout, memory));
    let Some(resumed) = resumed else { return false };
    *walk = resumed;
    out.native.push(NativeFrame { pc: u64::from(out.end), cfa: resumed.sp });
    true
}

/// Looks for the caller of code without unwind information as the probes do (`probes/scan.rs`): where a known matrix kernel has it, on the
/// stack that was put away if it was, then on its own; from there on along frame pointers that are proved.
fn scan<Code: Fn(u64) -> Option<u64>>(
    walk: &mut NativeWalk,
    tables: &mut impl Tables,
    memory: &StackCopy<'_, Code>,
    out: &mut Walked,
) -> bool {
    if let Some(found) = leave_kernel(walk, tables, memory) {
        end_last_frame(out, found.sp);
        *walk = found;
        return true;
    }
    let saved = saved_stack_pointer(walk, memory).map(|sp| NativeWalk { sp, ..*walk });
    let found = saved.into_iter().chain([*walk]).find_map(|from| native::find_caller(&from, tables, memory));
    match found {
        Some(Found::Proved(found)) => {
            end_last_frame(out, found.sp);
            *walk = found;
        }
        Some(Found::Guessed(found)) => {
            out.native.push(NativeFrame { pc: u64::from(end::NO_UNWIND_INFO), cfa: found.sp });
            out.guessed = out.guessed.saturating_add(1);
            if walk.returned == 0 {
                out.guess_depth = u16::try_from(found.sp.wrapping_sub(walk.sp)).unwrap_or(0);
            }
            *walk = found;
        }
        None => return false,
    }
    for _ in 0..MAX_FRAMES {
        let followed = follow_frame_pointer(walk, tables, memory);
        let Some((found, _)) = followed.filter(|&(_, proved)| proved || out.guessed > 0) else { break };
        out.native.push(NativeFrame { pc: walk.at(), cfa: found.sp });
        *walk = found;
    }
    true
}

fn end_last_frame(out: &mut Walked, cfa: u64) {
    if let Some(last) = out.native.last_mut() {
        last.cfa = cfa;
    }
}

#[cfg(test)]
mod tests {
    use super::{Anchors, MAX_RECOVERED, StackCopy, walk};
    use proptest::prelude::*;
    use tracer_ebpf::native::{NativeFrame, NativeWalk, Tables};
    use tracer_ebpf::rows::{Rule, rule};
    use tracer_ebpf::wire::{MAX_FRAMES, PAGE_BYTES, RAW_PAGES, end};

    /// All pages of a copy.
    const ALL: u32 = u32::MAX;
    /// Where the copy begins.
    const S: u64 = 0x7f00_0000_0000;

    /// Rules by the page of the pc.
    struct Pages(Vec<(u64, Rule)>);

    impl Tables for Pages {
        fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
            let found = self.0.iter().find(|(page, _)| *page == pc >> 12);
            found.map(|&(_, rule)| rule).ok_or(end::UNMAPPED)
        }
    }

    fn pages(rules: &[(u64, u32, i64)]) -> Pages {
        Pages(rules.iter().map(|&(page, kind, at)| (page, Rule::pack(kind, at, 0).unwrap())).collect())
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const START: NativeWalk =
        NativeWalk { pc: 0x1010, sp: S, fp: 0, returned: 0, callee_saved_at: 0, others_at: 0 };

    /// A chain inside the copy is walked to its outermost frame.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn a_whole_stack() {
        let stack = bytes(&[7, 0x2021, 8, 0x3031]);
        let copy = StackCopy::new(S, &stack, ALL, |_| None);
        let mut rules = pages(&[(1, rule::SP, 16), (2, rule::SP, 16), (3, rule::OUTERMOST, 0)]);
        let walked = walk(START, &Anchors::default(), &mut rules, &copy);
        let frames = [(0x1010, S + 16), (0x2020, S + 32), (0x3030, u64::MAX)];
        assert_eq!(walked.native, frames.map(|(pc, cfa)| NativeFrame { pc, cfa }));
        assert_eq!((walked.end, walked.recovered), (end::COMPLETE, 0));
    }

    /// A return address that is one of our marks, which a program may write there, is no frame; the walk ends at it.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn marks_are_not_forged() {
        let stack = bytes(&[7, u64::from(end::TOO_DEEP) + 1, 8, 9]);
        let copy = StackCopy::new(S, &stack, ALL, |_| None);
        let walked = walk(START, &Anchors::default(), &mut pages(&[(1, rule::SP, 16)]), &copy);
        assert_eq!(walked.native, [NativeFrame { pc: 0x1010, cfa: S + 16 }]);
        assert_eq!(walked.end, end::UNMAPPED);
    }

    /// What lies above all that is copied is behind the copy; what lies in its reach and was not read is a fault, and so is an address far away.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn the_end_of_the_copy() {
        let stack = bytes(&[7, 0x2021]);
        let ended = |distance| {
            let copy = StackCopy::new(S, &stack, ALL, |_| None);
            let mut rules = pages(&[(1, rule::SP, 16), (2, rule::FP, 16)]);
            walk(NativeWalk { fp: S + distance, ..START }, &Anchors::default(), &mut rules, &copy).end
        };
        assert_eq!(ended(24), end::FAULT);
        assert_eq!(ended((RAW_PAGES * PAGE_BYTES) as u64), end::BEYOND_COPY);
        assert_eq!(ended(1 << 30), end::FAULT);
    }

    /// A walk goes on behind pages that are not there, and reads nothing of them: a word in one, or with one byte in one, is a fault.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn a_hole_in_the_copy() {
        let at = |place: u64| {
            let mut stack = vec![0; 3 * PAGE_BYTES];
            let place = usize::try_from(place).unwrap();
            stack[place..place + 8].copy_from_slice(&0x2021_u64.to_ne_bytes());
            let copy = StackCopy::new(S, &stack, 0b101, |_| None);
            let mut rules = pages(&[(1, rule::FP, 8), (2, rule::OUTERMOST, 0)]);
            let from = NativeWalk { fp: S + place as u64, ..START };
            walk(from, &Anchors::default(), &mut rules, &copy).end
        };
        let page = PAGE_BYTES as u64;
        assert_eq!([at(8), at(2 * page)], [end::COMPLETE; 2]);
        assert_eq!([at(page + 8), at(page - 4), at(2 * page - 4)], [end::FAULT; 3]);
    }

    /// Code without unwind information is left by a scan, which reads the call from the file and not from the stack.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn a_scan() {
        let stack = bytes(&[7, 0x2021, 0x3031]);
        // `call` of the page of the code that was interrupted.
        let distance = u64::from((0x1000_u32).wrapping_sub(0x2021));
        let call = |address: u64| (address == 0x2021 - 8).then_some(distance << 32 | 0xe8 << 24);
        let copy = StackCopy::new(S, &stack, ALL, call);
        let mut rules = pages(&[(1, rule::NONE, 0), (2, rule::SP, 8), (3, rule::OUTERMOST, 0)]);
        let walked = walk(START, &Anchors::default(), &mut rules, &copy);
        assert_eq!((walked.end, walked.recovered), (end::COMPLETE, 1));
        assert_eq!(walked.native[0], NativeFrame { pc: 0x1010, cfa: S + 16 });
        let blind = StackCopy::new(S, &stack, ALL, |_| None);
        assert_eq!(walk(START, &Anchors::default(), &mut rules, &blind).end, end::NO_UNWIND_INFO);
    }

    /// A walk that lost its way goes on at the next anchor above it, with the reason in the gap.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks as x86-64 has them")]
    fn a_gap_at_an_anchor() {
        let stack = bytes(&[0, 0, 0, 0, 0, 0x3031]);
        let copy = StackCopy::new(S, &stack, ALL, |_| None);
        let anchors = Anchors { places: vec![S - 8, S + 16], eval_cfa: 32, eval_fp: 0 };
        let mut rules = pages(&[(3, rule::OUTERMOST, 0)]);
        let walked = walk(START, &anchors, &mut rules, &copy);
        let gap = NativeFrame { pc: u64::from(end::UNMAPPED), cfa: S + 48 };
        assert_eq!((walked.native[1], walked.end, walked.recovered), (gap, end::COMPLETE, 1));
    }

    /// Rules made of a number.
    struct Any(u64);

    impl Tables for Any {
        fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
            let mixed = (pc ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if mixed >> 61 == 0 { Err(end::UNMAPPED) } else { Ok(Rule(mixed as u32 & 0x4fff_003f)) }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        /// Whatever the registers, the copy, the rules and the anchors: a walk ends, in bounds, and says why.
        #[test]
        fn any_copy(
            words in proptest::collection::vec(prop_oneof![any::<u64>(), S..S + 2048, 0..4u64], 0..256),
            registers in proptest::array::uniform3(prop_oneof![any::<u64>(), S..S + 2048]),
            base in prop_oneof![Just(S), any::<u64>()],
            places in proptest::collection::vec(prop_oneof![any::<u64>(), S..S + 2048], 0..8),
            read: u32, seed: u64, eval_cfa: u32, eval_fp: u32,
        ) {
            let stack = bytes(&words);
            let copy = StackCopy::new(base, &stack, read, |address| (address % 3 == 0).then_some(address));
            let [pc, sp, fp] = registers;
            let from = NativeWalk { pc, sp, fp, ..NativeWalk::default() };
            let walked = walk(from, &Anchors { places, eval_cfa, eval_fp }, &mut Any(seed), &copy);
            let gaps = u8::try_from(MAX_RECOVERED).unwrap();
            prop_assert!(walked.native.len() <= (2 * MAX_FRAMES as usize + 2) * (usize::from(gaps) + 1));
            prop_assert!(walked.recovered <= gaps && walked.guessed <= gaps && walked.end != end::RUNNING);
            prop_assert!(!walked.native.is_empty());
        }
    }
}
