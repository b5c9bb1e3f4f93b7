//! Ranges that programs mark, in one definition for both sides.
//!
//! Each thread has a word in its memory with the number of the path of its ranges; what a number means is told once. Ranges between two probes of
//! a binary (USDT) have no such word: `marks` keeps them in the number itself. Leaves out who tells of the others (`energy-trace-cupti`, `ranges`).

/// What the probed function is told, in its first argument.
pub mod tell {
    /// Where the calling thread's word lies; 0: it has none any more.
    pub const THREAD: u64 = 1;
    /// A path's number, that of the path around it, and its label's.
    pub const PATH: u64 = 2;
    /// A label's number, and where its text lies.
    pub const LABEL: u64 = 3;
}

/// Bytes of a label, its zero included.
pub const LABEL_BYTES: usize = 96;
/// Threads, paths and labels that are kept of all processes, each.
pub const MOST: u32 = 16_384;
/// In place of a path's number: the thread's word could not be read.
pub const UNREADABLE: u64 = 1;
/// Ranges of a path at the most.
pub const DEEPEST: usize = 65;

/// A path: that around it (0: none), and the label of its last range.
pub type Path = [u64; 2];

/// Ranges between two probes: a path of them is one number, with a digit of four bits for each, that of the innermost one lowest.
pub mod marks {
    /// Tells such a path from an address in a program, and from the number of another path.
    pub const MARKED: u64 = 1 << 63;
    /// There are ranges within, for which there is no digit.
    pub const DEEPER: u64 = 1 << 62;
    /// Pairs of probes: their digits begin with 1.
    pub const MOST_PAIRS: u64 = 15;
    /// Ranges of a path at the most.
    pub const DEEPEST: u32 = 15;
    const DIGITS: u64 = (1 << 60) - 1;

    /// What a probe does, as its cookie: the digit of its pair, and whether it ends a range.
    pub const fn cookie(pair: u64, ends: bool) -> u64 {
        pair << 1 | ends as u64
    }

    /// The ranges of a thread, between the first that begins and the last that ends.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Marks {
        /// Their path.
        pub path: u64,
        /// Ranges within, for which there is no digit.
        pub deeper: u64,
        /// The thread's word before; 0: it had none.
        pub word: u64,
    }

    impl Marks {
        /// Where nothing has begun.
        pub const fn new(word: u64) -> Self {
            Self { path: MARKED, deeper: 0, word }
        }

        /// What the sampler is told.
        #[inline(always)]
        pub const fn shown(&self) -> u64 {
            if self.deeper > 0 { self.path | DEEPER } else { self.path }
        }

        /// A range begins.
        #[inline(always)]
        pub fn begin(&mut self, pair: u64) {
            if self.path & DIGITS >> 4 != self.path & DIGITS || pair == 0 || pair > MOST_PAIRS {
                self.deeper = self.deeper.saturating_add(1);
            } else {
                self.path = MARKED | (self.path & DIGITS) << 4 | pair;
            }
        }

        /// The innermost range of a pair ends, and with it those within, whose ends did not come; without one nothing does.
        #[inline(always)]
        pub fn end(&mut self, pair: u64) {
            if self.deeper > 0 {
                self.deeper -= 1;
                return;
            }
            let digits = self.path & DIGITS;
            for depth in 0..DEEPEST {
                if digits >> (4 * depth) & 15 == pair {
                    self.path = MARKED | digits >> (4 * depth) >> 4;
                    return;
                }
            }
        }

        /// Whether none is open.
        #[inline(always)]
        pub const fn is_over(&self) -> bool {
            self.path == MARKED && self.deeper == 0
        }
    }

    const _: () = assert!(size_of::<Marks>() == 24);

    /// The path around a path's innermost range (0: none), and that range's pair; `None`: ranges for which there was no digit.
    pub const fn innermost(path: u64) -> (u64, Option<u64>) {
        let digits = path & DIGITS;
        match (path & DEEPER != 0, digits >> 4) {
            (true, _) => (MARKED | digits, None),
            (false, 0) => (0, Some(digits)),
            (false, around) => (MARKED | around, Some(digits & 15)),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{vec, vec::Vec};

    use super::marks::{DEEPEST, MARKED, MOST_PAIRS, Marks, innermost};

    /// The pairs of a path, the innermost one first; `None`: ranges without a digit.
    fn pairs(marks: &Marks) -> Vec<Option<u64>> {
        let (mut pairs, mut path) = (Vec::new(), marks.shown());
        while path != 0 && path != MARKED {
            let (around, pair) = innermost(path);
            pairs.push(pair);
            path = around;
        }
        pairs
    }

    /// Ranges nest; an end without a begin ends nothing, and one whose inner ends did not come ends those too.
    #[test]
    fn nested() {
        let mut marks = Marks::new(7);
        marks.end(1);
        assert!(marks.is_over() && pairs(&marks).is_empty());
        [1, 2, 2, 3].into_iter().for_each(|pair| marks.begin(pair));
        assert_eq!(pairs(&marks), [3, 2, 2, 1].map(Some));
        marks.end(4);
        marks.end(3);
        marks.end(2);
        assert_eq!(pairs(&marks), [2, 1].map(Some));
        marks.begin(MOST_PAIRS);
        marks.end(1);
        assert!(marks.is_over(), "{marks:?}");
        assert_eq!(marks.word, 7);
    }

    /// Begins without end have the deepest path and a range of their own in it; as many ends lead back.
    #[test]
    fn endless() {
        let mut marks = Marks::default();
        (0..10_000_000).for_each(|_| marks.begin(MOST_PAIRS));
        let deepest = [vec![None], vec![Some(MOST_PAIRS); DEEPEST as usize]].concat();
        assert_eq!(pairs(&marks), deepest);
        (0..10_000_000 - DEEPEST).for_each(|_| marks.end(1));
        assert_eq!(pairs(&marks), deepest[1..]);
        (0..DEEPEST).for_each(|_| marks.end(MOST_PAIRS));
        assert!(marks.is_over(), "{marks:?}");
    }

    /// A cookie that is none of ours begins nothing that could be taken for another range.
    #[test]
    fn strange() {
        let mut marks = Marks::new(0);
        [0, 16, u64::MAX].into_iter().for_each(|pair| marks.begin(pair));
        assert_eq!(pairs(&marks), [None]);
    }
}
