//! Remembers what row tables said, with the stretch of code of which they say the same: most of a stack was there in the sample before.
//!
//! Between two samples the target's work pushes everything out of the caches, so that what counts is how many cache lines and pages an
//! answer touches. Answers lie one behind the other in the order in which they were first asked for, and each knows which ones came next
//! the last times, two at most: a walk up a known stack reads them in order, and needs the indexes only where it leaves the ways of the
//! walks before.
//! Addresses without unwind information or without a mapping are remembered too: a scan of the stack asks for many, the same each time.
//!
//! What is remembered holds for one generation of one address space only (`AddressSpace::generation`). Leaves out the tables themselves
//! (`probes/tables.rs`), and what may not be remembered: `NOT_READY`.

use crate::lookup::{Answer, Lookup, WIDE};

/// Answers that are kept, a power of two: several times the return addresses that the threads of a CPU go through.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 12;
/// Bits of a key that an index keeps beside the place: fifteen of sixteen answers about something else are not looked at.
const MARK_BITS: u32 = 4;
const MARK: u64 = (1 << MARK_BITS) - 1;
/// Places of the index by address: a power of two.
const ADDRESSES: usize = 4096;
/// Places of the index by block of addresses: a power of two.
const BLOCKS: usize = 1024;
/// A block of code, in bits of an address: the leaf of a hot loop is in the same one, at another instruction.
const CODE: u32 = 7;

/// A found that is kept.
#[repr(C)]
#[derive(Clone, Copy)]
struct Known {
    start: u64,
    length: u32,
    /// 0 in a place that was never filled.
    generation: u32,
    answer: u32,
    /// The place of the answer that followed this one last time, and of the one that did before that.
    next: [u16; 2],
}

impl Known {
    #[inline(always)]
    const fn holds(&self, pc: u64, generation: u32) -> bool {
        pc.wrapping_sub(self.start) < self.length as u64 && self.generation == generation
    }
}

/// What one CPU remembers. All zero is empty; it is too large for a stack.
#[repr(C)]
pub struct UnwindRowCache {
    known: [Known; PLACES],
    by_address: [u16; ADDRESSES],
    by_block: [u16; BLOCKS],
    // What every answer touches stands at the end, beside what else each sample does (`probes/maps.rs`).
    /// The place of the last rule that was asked for.
    last: u32,
    /// The place that was filled last.
    newest: u32,
}

impl UnwindRowCache {
    /// The answer that followed the last one, if it is about this address.
    #[inline(always)]
    pub fn follow(&mut self, pc: u64, generation: u32) -> Option<Answer> {
        let [next, _] = self.place(self.last).next;
        self.go_on(u32::from(next), pc, generation)
    }

    /// The answer that followed the last one before that: where two ways part, a walk often takes them in turn.
    #[inline(always)]
    fn follow_other(&mut self, pc: u64, generation: u32) -> Option<Answer> {
        let [_, other] = self.place(self.last).next;
        self.go_on(u32::from(other), pc, generation)
    }

    #[inline(always)]
    fn go_on(&mut self, next: u32, pc: u64, generation: u32) -> Option<Answer> {
        let known = self.place(next);
        if !known.holds(pc, generation) {
            return None;
        }
        let answer = Answer(known.answer);
        self.last = next;
        Some(answer)
    }

    /// The answer about an address, wherever it is.
    #[inline(always)]
    pub fn recall(&mut self, pc: u64, generation: u32) -> Option<Answer> {
        if let Some(answer) = self.follow_other(pc, generation) {
            return Some(answer);
        }
        let mixed_key = mixed(pc, generation);
        let marked = *self.address(mixed_key);
        if let Some(answer) = self.arrive(marked, mixed_key, pc, generation) {
            return Some(answer);
        }
        let mixed_key = mixed(pc >> CODE, generation);
        let marked = *self.block(mixed_key);
        if let Some(answer) = self.arrive(marked, mixed_key, pc, generation) {
            return Some(answer);
        }
        self.recall_none(pc, generation)
    }

    /// The answer about an address that has no rule and whose whole block is known for that. Most words of a stack that a scan looks at are of
    /// this sort: it asks here first, which touches two cache lines where `recall` may touch six.
    #[inline(always)]
    pub fn recall_none(&mut self, pc: u64, generation: u32) -> Option<Answer> {
        let mixed_key = mixed(!(pc >> WIDE), generation);
        let marked = *self.block(mixed_key);
        self.arrive(marked, mixed_key, pc, generation)
    }

    /// Keeps what the tables say of `pc`, in the place of the oldest.
    #[inline(always)]
    pub fn learn(&mut self, pc: u64, generation: u32, lookup: Lookup) {
        let Lookup { start, length, answer } = lookup;
        let newest = self.newest.wrapping_add(1);
        self.newest = newest;
        *self.place(newest) =
            Known { start, length, generation, answer: answer.0, next: [place(newest.wrapping_add(1)); 2] };
        if answer.is_rule() {
            let [address, block] = [mixed(pc, generation), mixed(pc >> CODE, generation)];
            *self.address(address) = marked(newest, address);
            *self.block(block) = marked(newest, block);
            self.link(newest);
        } else {
            let block = mixed(!(pc >> WIDE), generation);
            *self.block(block) = marked(newest, block);
        }
    }

    /// The answer at a place of which an index knew, if it is about this address. Where the mark is another key's it is not, and is not
    /// touched.
    #[inline(always)]
    fn arrive(&mut self, marked: u16, mixed_key: u64, pc: u64, generation: u32) -> Option<Answer> {
        if u64::from(marked >> PLACE_BITS) != mixed_key & MARK {
            return None;
        }
        let place = u32::from(marked);
        let known = self.place(place);
        if !known.holds(pc, generation) {
            return None;
        }
        let answer = Answer(known.answer);
        if answer.is_rule() {
            self.link(place);
        }
        Some(answer)
    }

    /// A rule follows the one before. Addresses without one do not count: a scan asks for them between two frames.
    #[inline(always)]
    fn link(&mut self, next: u32) {
        let last = self.place(self.last);
        last.next = [place(next), last.next[0]];
        self.last = next;
    }

    #[inline(always)]
    fn place(&mut self, place: u32) -> &mut Known {
        const { assert!(PLACES == 1 << PLACE_BITS) };
        // SAFETY: the mask keeps it below PLACES.
        unsafe { &mut *self.known.as_mut_ptr().add(low::<PLACE_BITS>(u64::from(place))) }
    }

    #[inline(always)]
    fn address(&mut self, mixed_key: u64) -> &mut u16 {
        const { assert!(ADDRESSES == 1 << 12) };
        // SAFETY: the mask keeps it below ADDRESSES.
        unsafe { &mut *self.by_address.as_mut_ptr().add(low::<12>(mixed_key >> MARK_BITS)) }
    }

    #[inline(always)]
    fn block(&mut self, mixed_key: u64) -> &mut u16 {
        const { assert!(BLOCKS == 1 << 10) };
        // SAFETY: the mask keeps it below BLOCKS.
        unsafe { &mut *self.by_block.as_mut_ptr().add(low::<10>(mixed_key >> MARK_BITS)) }
    }
}

/// A place, of which the bits above are not kept.
#[inline(always)]
const fn place(number: u32) -> u16 {
    (number & ((1 << PLACE_BITS) - 1)) as u16
}

/// What an index keeps: a place, and above it the mark of the key.
#[inline(always)]
const fn marked(number: u32, mixed_key: u64) -> u16 {
    place(number) | ((mixed_key & MARK) << PLACE_BITS) as u16
}

/// Spreads keys over sixteen bits: the upper twelve choose the place in an index, the lower four are the mark. The multiplier is 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
#[inline(always)]
const fn mixed(key: u64, generation: u32) -> u64 {
    (key ^ (generation as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACE_BITS - MARK_BITS)
}

/// The lowest bits.
#[inline(always)]
fn low<const BITS: u32>(value: u64) -> usize {
    let mut value = value;
    // SAFETY: a mask; hidden from the compiler so that it stays where the verifier needs it.
    #[cfg(target_arch = "bpf")]
    unsafe {
        core::arch::asm!("{0} &= {1}", inout(reg) value, const (1u64 << BITS) - 1);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        value &= (1 << BITS) - 1;
    }
    value as usize
}

#[cfg(not(emulated))]
#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::{Answer, Lookup, PLACES, UnwindRowCache};
    use crate::rows::Rule;
    use crate::wire::end;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn empty() -> Box<UnwindRowCache> {
        // SAFETY: integers, of which all zero is a value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Tables of two address spaces: stretches of 1 to 300 bytes, now and then without a rule.
    fn table(pc: u64, generation: u32) -> Lookup {
        let block = pc / 300 * 300;
        let cut = block + 1 + (block / 7 * u64::from(generation)) % 299;
        let (first, end) = if pc < cut { (block, cut) } else { (cut, block + 300) };
        let word = (first * 31 + u64::from(generation)) as u32 & 0xffff;
        let answer = match first % 5 {
            0 => Answer::none(end::NO_UNWIND_INFO),
            1 => Answer::none(end::UNMAPPED),
            _ => Answer::rule(Rule(word)),
        };
        if answer.is_rule() {
            let [relative, row, next] = [pc, first, end].map(|at| (at - block) as u32);
            Lookup::row(pc, [relative, row, next], [0, u64::MAX], answer)
        } else {
            Lookup::between(pc, first, end, answer)
        }
    }

    /// As the probes ask.
    fn ask(known: &mut UnwindRowCache, pc: u64, generation: u32) -> Answer {
        if let Some(answer) = known.follow(pc, generation).or_else(|| known.recall(pc, generation)) {
            return answer;
        }
        let found = table(pc, generation);
        known.learn(pc, generation, found);
        found.answer
    }

    proptest! {
        /// Whatever was asked before, in whichever address space, the answer is the tables'.
        #[test]
        fn answers_are_the_tables(
            stacks in prop::collection::vec((1u32..4, prop::collection::vec(0u64..40_000, 1..40)), 1..6),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..400),
        ) {
            let mut known = empty();
            for (generation, stack) in order.iter().map(|at| at.get(&stacks)) {
                for &pc in stack {
                    prop_assert_eq!(ask(&mut known, pc, *generation), table(pc, *generation).answer);
                }
            }
        }
    }

    /// A stack that was walked before is followed without an index, even where another one has the same callers and was walked in between.
    #[test]
    fn known_stacks_are_followed() {
        let mut known = empty();
        let pcs: Vec<u64> = (0..60).map(|frame| 1 << 30 | frame << 10).collect();
        let rule = |pc| Lookup::only(pc, Answer::rule(Rule((pc >> 10) as u32 & 0xfff)));
        for &pc in &pcs {
            known.learn(pc, 1, rule(pc));
        }
        for other in [(1 << 31, 30), (1 << 32, 40)] {
            known.learn(other.0, 1, rule(other.0));
            let shared = &pcs[other.1..];
            assert_eq!(known.recall(shared[0], 1), Some(rule(shared[0]).answer));
            assert!(shared[1..].iter().all(|&pc| known.follow(pc, 1) == Some(rule(pc).answer)));
        }
        assert_eq!(known.recall(pcs[0], 1), Some(rule(pcs[0]).answer));
        assert!(pcs[1..].iter().all(|&pc| known.follow(pc, 1) == Some(rule(pc).answer)));
    }

    /// Where two ways part that are taken in turn, neither needs an index.
    #[test]
    fn two_ways_in_turn() {
        let mut known = empty();
        let [callee, one, other] = [1 << 30, 2 << 30, 3 << 30];
        let rule = |pc: u64| Lookup::only(pc, Answer::rule(Rule((pc >> 30) as u32)));
        for pc in [callee, one, other] {
            known.learn(pc, 1, rule(pc));
        }
        for caller in [one, other, one] {
            known.recall(callee, 1);
            known.recall(caller, 1);
        }
        known.recall(callee, 1);
        assert_eq!(known.follow(one, 1), None);
        assert_eq!(known.follow_other(one, 1), Some(rule(one).answer));
        known.recall(callee, 1);
        assert_eq!(known.follow(other, 1), Some(rule(other).answer));
    }

    /// Another generation, an address behind the stretch, and what was pushed out are not known.
    #[test]
    fn what_is_not_known() {
        let mut known = empty();
        assert_eq!((known.follow(0, 1), known.recall(0, 1)), (None, None));
        let answer = Answer::rule(Rule(7));
        known.learn(0x1010, 1, Lookup { start: 0x1000, length: 0x20, answer });
        assert_eq!(known.recall(0x101f, 1), Some(answer));
        assert_eq!(
            (known.recall(0x1020, 1), known.recall(0x1010, 2), known.recall(0xfff, 1)),
            (None, None, None)
        );
        for more in 0..PLACES as u64 {
            known.learn(more << 30, 1, Lookup::only(more << 30, answer));
        }
        assert_eq!(known.recall(0x1010, 1), None);
    }
}
