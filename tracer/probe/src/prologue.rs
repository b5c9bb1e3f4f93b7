//! Where in a function a probe costs least: the kernel emulates some instructions, and steps through all others.
//!
//! A probe on an instruction that the kernel has to run out of line costs two traps: 20 to 33 µs in a virtual machine, beside 0.9 µs on a
//! `push` (measured, research of this project). Functions may begin with an instruction that marks where indirect calls lead, which is not
//! emulated; the next one has the same registers and the same stack. Leaves out which instructions these are (`arch`).

use crate::arch::{is_emulated, landing_pad};

/// Where to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Bytes behind the function's first.
    pub(crate) offset: u64,
    /// Whether the kernel has to step through the instruction there.
    pub(crate) steps: bool,
}

/// The spot for a function that begins with these bytes.
pub(crate) fn spot(code: &[u8]) -> Spot {
    let offset = landing_pad(code);
    Spot { offset: offset as u64, steps: !is_emulated(code.get(offset..).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::{Spot, spot};

    /// `endbr64` is skipped, `push` and jumps are emulated, `sub` and `mov` and nothing at all are not.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn the_cheapest_spot() {
        let endbr = |rest: &[u8]| [&[0xf3, 0x0f, 0x1e, 0xfa][..], rest].concat();
        assert_eq!(spot(&endbr(&[0x55])), Spot { offset: 4, steps: false });
        assert_eq!(spot(&[0x41, 0x57, 0x41]), Spot { offset: 0, steps: false });
        assert_eq!(spot(&[0xe9, 0, 0, 0, 0]), Spot { offset: 0, steps: false });
        assert_eq!(spot(&endbr(&[0x48, 0x83, 0xec, 8])), Spot { offset: 4, steps: true });
        assert_eq!(spot(&[0x41, 0x89]), Spot { offset: 0, steps: true });
        assert_eq!(spot(&[]), Spot { offset: 0, steps: true });
    }
}
