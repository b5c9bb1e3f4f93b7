//! Whether a chain of frames in somebody else's memory can be followed: addresses that are no frame's, and chains that lead back into
//! themselves.
//!
//! A program may write what it likes into its frames, and a process that is starting has some that are not filled in. Leaves out what a
//! frame is (`python.rs`).

use crate::arch::call::USER_BITS;

/// What a walk remembers of the places that it has passed: one of them, renewed at each power of two (R. P. Brent, "An improved Monte Carlo
/// factorization algorithm", 1980). A chain that goes in circles is noticed after at most three times its length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CycleDetector {
    remembered: u64,
    passed: u64,
}

impl CycleDetector {
    /// Nothing was passed yet. 0 is no place: it ends a chain.
    pub const fn new() -> Self {
        Self { remembered: 0, passed: 0 }
    }

    /// Passes a place; whether it is the remembered one.
    #[inline(always)]
    pub fn revisits(&mut self, place: u64) -> bool {
        if place == self.remembered {
            return true;
        }
        self.passed = self.passed.wrapping_add(1);
        if self.passed & self.passed.wrapping_sub(1) == 0 {
            self.remembered = place;
        }
        false
    }
}

/// What stands for a link that leads nowhere: no frame's address.
pub const NOWHERE: u64 = 1;

/// Whether no frame is at this address: frames begin at whole words, and in user space.
#[inline(always)]
pub const fn is_nowhere(address: u64) -> bool {
    address & 7 != 0 || address >> USER_BITS != 0
}

#[cfg(test)]
mod tests {
    use super::{CycleDetector, NOWHERE, is_nowhere};

    /// Steps until a chain that goes into a circle of `length` after `lead` places is noticed.
    fn steps(lead: u64, length: u64) -> Option<u64> {
        let mut cycle = CycleDetector::new();
        let place = |step: u64| if step < lead { step } else { lead + (step - lead) % length };
        (0..10_000).find(|&step| cycle.revisits(8 * (1 + place(step))))
    }

    /// A circle is noticed soon after it closes, at once where a frame follows itself; a chain without one never is.
    #[test]
    fn circles() {
        assert_eq!(steps(0, 1), Some(1));
        for (lead, length) in [(0, 2), (3, 1), (5, 7), (0, 100), (100, 1), (100, 100)] {
            let found = steps(lead, length).unwrap();
            assert!(found >= lead + length && found <= 3 * (lead + length) + 1, "{lead} {length}: {found}");
        }
        assert_eq!(steps(20_000, 1), None);
    }

    /// Addresses of frames are whole words of user space.
    #[test]
    fn nowhere() {
        assert!([NOWHERE, 0x1004, 0xffff_8880_0000_0000, !7].into_iter().all(is_nowhere));
        assert!(![0x1000, 0x7fff_ffff_fff8].into_iter().any(is_nowhere));
    }
}
