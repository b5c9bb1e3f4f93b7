//! Where in a function a probe costs least: the kernel emulates some instructions, and steps through all others.
//!
//! A probe on an instruction that the kernel has to run out of line costs two traps: 20 to 33 µs in a virtual machine, beside 0.9 µs on a
//! `push` (measured, research of this project). The kernel emulates `push`, `nop`, `jmp`, `call` and conditional jumps
//! (arch/x86/kernel/uprobes.c, `branch_setup_xol_ops` and `push_setup_xol_ops`, v6.1). Functions compiled with `-fcf-protection` begin
//! with `endbr64`, which is not emulated; the next instruction has the same registers and the same stack.

/// Where to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Bytes behind the function's first.
    pub(crate) offset: u64,
    /// Whether the kernel has to step through the instruction there.
    pub(crate) steps: bool,
}

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The spot for a function that begins with these bytes.
pub(crate) fn spot(code: &[u8]) -> Spot {
    let (offset, code) = code.strip_prefix(&ENDBR64).map_or((0, code), |rest| (4, rest));
    Spot { offset, steps: !is_emulated(code) }
}

fn is_emulated(code: &[u8]) -> bool {
    match code {
        // push; its REX.B form for r8 to r15; nop; short conditional jump, near and short jump, call.
        [0x50..=0x57 | 0x90 | 0x70..=0x7f | 0xe8 | 0xe9 | 0xeb, ..] | [0x41, 0x50..=0x57, ..] => true,
        // Near conditional jump.
        [0x0f, 0x80..=0x8f, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Spot, spot};

    /// `endbr64` is skipped, `push` and jumps are emulated, `sub` and `mov` and nothing at all are not.
    #[test]
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
