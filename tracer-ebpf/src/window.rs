//! Which stretch of memory to copy at once where single words or frames will be asked for one after the other.
//!
//! A stretch holds what was asked for and touches no page that reading that alone would not touch: it can be read exactly where that
//! can. Leaves out the reading (`probes/user_memory.rs`).

/// Bytes of a page; where pages are larger a stretch is merely shorter than it could be.
const PAGE: u64 = 4096;
/// Bytes of the longest stretch: several native frames. Half as many take PyTorch's stacks 14 reads instead of 9, and each costs 0.2 µs.
pub const WINDOW: u64 = 2048;
/// Bytes of the longest one for Python's frames: half a dozen.
const PYTHON_WINDOW: u64 = 1024;
/// Bytes below a word that was asked for: saved registers lie below the return address, which is read first.
const BELOW: u64 = 64;

/// A stretch of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its first address.
    pub base: u64,
    /// Its length in bytes, at most `WINDOW`.
    pub bytes: u64,
}

/// For a walk up the stack: a little below the word at `address`, which is aligned, and as much as fits above.
#[inline(always)]
pub fn up_from(address: u64) -> Stretch {
    let in_page = address & (PAGE - 1);
    let first = in_page.saturating_sub(BELOW);
    Stretch { base: address - in_page + first, bytes: (PAGE - first).min(WINDOW) }
}

/// For a walk down Python's frames: the frame of `bytes` bytes at `address` and, where its callers are `close`, what lies below it. The
/// distance from its base to `address` is a multiple of eight.
#[inline(always)]
pub fn down_from(address: u64, bytes: u64, close: bool) -> Stretch {
    let in_page = address & (PAGE - 1);
    let below = if close { in_page.min(PYTHON_WINDOW.saturating_sub(bytes)) & !7 } else { 0 };
    Stretch { base: address - below, bytes: below + bytes }
}

/// Whether the frame at `address` lies so close below what was copied last that more frames will.
#[inline(always)]
pub fn is_close(last: u64, address: u64) -> bool {
    last.wrapping_sub(address) < PYTHON_WINDOW
}

#[cfg(not(emulated))]
#[cfg(test)]
mod tests {
    use super::{PAGE, PYTHON_WINDOW, Stretch, WINDOW, down_from, is_close, up_from};
    use proptest::prelude::*;

    /// First and last page of `bytes` bytes at `address`.
    fn pages(address: u64, bytes: u64) -> (u64, u64) {
        (address / PAGE, (address + bytes - 1) / PAGE)
    }

    fn holds(stretch: Stretch, address: u64, bytes: u64) -> bool {
        stretch.base <= address && address + bytes <= stretch.base + stretch.bytes && stretch.bytes <= WINDOW
    }

    proptest! {
        /// A word is inside, aligned to the stretch, and no other page is touched.
        #[test]
        fn words(word in 0..u64::MAX / 8 - 1024) {
            let address = word * 8;
            let stretch = up_from(address);
            prop_assert!(holds(stretch, address, 8) && stretch.base.is_multiple_of(8));
            prop_assert_eq!(pages(stretch.base, stretch.bytes), pages(address, 8));
        }

        /// A frame is inside at a whole word, and no page is touched that it does not lie in, aligned or not.
        #[test]
        fn frames(address in PAGE..u64::MAX - PAGE, words in 1u64..16, close: bool) {
            let stretch = down_from(address, words * 8, close);
            prop_assert!(holds(stretch, address, words * 8) && (address - stretch.base).is_multiple_of(8));
            prop_assert_eq!(pages(stretch.base, stretch.bytes), pages(address, words * 8));
        }
    }

    /// The next caller of a run is close; a frame above, far below, or the first of a walk is not.
    #[test]
    fn closeness() {
        assert!(is_close(0x10_0000, 0x10_0000 - 200));
        assert!(!is_close(0x10_0000, 0x10_0008));
        assert!(!is_close(0x10_0000, 0x10_0000 - PYTHON_WINDOW));
        assert!(!is_close(0, 0x10_0000));
    }
}
