//! What the row tables say of a stretch of code: the same rule, or the same reason why there is none.
//!
//! Leaves out how it is found (`probes/tables.rs`) and remembered (`unwind_row_cache.rs`).

use crate::rows::Rule;

/// A block of addresses that have no rules, in bits: buffers for code made at run time, the heap.
pub(crate) const WIDE: u32 = 21;

/// A rule, or an `end` code why there is none, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer(pub(crate) u32);

impl Answer {
    /// A kind that no rule has (`rows::rule`).
    const NO_RULE: u32 = 0xf << 28;

    /// A rule.
    pub const fn rule(rule: Rule) -> Self {
        Self(rule.0)
    }

    /// Why there is none.
    pub const fn none(code: u8) -> Self {
        Self(Self::NO_RULE | code as u32)
    }

    pub(crate) const fn is_rule(self) -> bool {
        self.0 < Self::NO_RULE
    }

    /// What `Tables::rule` answers.
    ///
    /// # Errors
    /// The `end` code.
    pub const fn get(self) -> Result<Rule, u8> {
        if self.is_rule() { Ok(Rule(self.0)) } else { Err(self.0 as u8) }
    }
}

/// What the tables say of `length` addresses from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The first address.
    pub start: u64,
    /// How many.
    pub length: u32,
    /// The same for each.
    pub answer: Answer,
}

impl Lookup {
    /// Of one address.
    pub const fn only(pc: u64, answer: Answer) -> Self {
        Self { start: pc, length: 1, answer }
    }

    /// Of the addresses around `pc` which lie between these two, the second excluded, and in the same block of 2 MiB.
    #[inline(always)]
    pub const fn between(pc: u64, first: u64, end: u64, answer: Answer) -> Self {
        let block = pc >> WIDE << WIDE;
        Self::within(pc, if first > block { first } else { block }, block | ((1 << WIDE) - 1), end, answer)
    }

    /// Of the code around `pc` that one row is about. `relative` is `pc` as the table counts, `row` and `next` the places of its row and of
    /// the one behind it. It ends where the mapping does.
    #[inline(always)]
    pub const fn row(
        pc: u64,
        [relative, row, next]: [u32; 3],
        [first, end]: [u64; 2],
        answer: Answer,
    ) -> Self {
        if row > relative || next <= relative {
            return Self::only(pc, answer);
        }
        let start = pc.saturating_sub((relative - row) as u64);
        let start = if first > start { first } else { start };
        Self::within(pc, start, pc.saturating_add((next - relative) as u64), end, answer)
    }

    /// From `start` to the nearer one of two ends; of `pc` alone where that is not so.
    #[inline(always)]
    const fn within(pc: u64, start: u64, end: u64, other_end: u64, answer: Answer) -> Self {
        let end = if other_end < end { other_end } else { end };
        if start > pc || end <= pc || end - start > u32::MAX as u64 {
            return Self::only(pc, answer);
        }
        Self { start, length: (end - start) as u32, answer }
    }
}

#[cfg(not(emulated))]
#[cfg(test)]
mod tests {
    use super::{Answer, Lookup};
    use crate::wire::end;
    use proptest::prelude::*;

    proptest! {
        /// A found is about the address that was asked for, and reaches over neither the row nor the mapping.
        #[test]
        fn stretches(pc in 0u64..1 << 40, before in 0u64..1 << 33, behind in 1u64..1 << 33, row: bool, relative: u32) {
            let [first, end] = [pc.saturating_sub(before), pc + behind];
            let answer = Answer::none(end::UNMAPPED);
            let found = if row {
                Lookup::row(pc, [relative, relative / 2, relative.saturating_add(9)], [first, end], answer)
            } else {
                Lookup::between(pc, first, end, answer)
            };
            let found_end = found.start + u64::from(found.length);
            prop_assert!(found.start <= pc && pc < found_end);
            prop_assert!(first <= found.start && found_end <= end);
            if row {
                prop_assert!(found.length <= relative - relative / 2 + 9);
            } else {
                prop_assert_eq!(found.start >> 21, (found_end - 1) >> 21);
            }
        }
    }
}
