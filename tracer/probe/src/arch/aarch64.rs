//! aarch64: which instructions the kernel emulates where they are probed.
//!
//! Those are branches, calls, returns, and what reads the program counter (arch/arm64/kernel/probes/decode-insn.c, `arm_probe_decode_insn`, v6.1);
//! later kernels emulate more. Leaves out where is probed (`prologue.rs`).

/// Bytes of the instruction with which functions begin that may be called indirectly (`-mbranch-protection`): `bti c`, `bti j`, `bti jc`; 0 where
/// code begins otherwise. `paciasp` is none: behind it the return address is signed.
pub(crate) fn landing_pad(code: &[u8]) -> usize {
    if matches!(first(code), 0xd503_245f | 0xd503_249f | 0xd503_24df) { 4 } else { 0 }
}

/// Whether the kernel emulates the first instruction.
pub(crate) fn is_emulated(code: &[u8]) -> bool {
    let first = first(code);
    let is_branch = first & 0x7c00_0000 == 0x1400_0000;
    let is_conditional = first & 0xff00_0010 == 0x5400_0000 || first & 0x7c00_0000 == 0x3400_0000;
    let is_computed = first & 0xff9f_fc1f == 0xd61f_0000;
    let reads_pc = first & 0x1f00_0000 == 0x1000_0000 || first & 0xbf00_0000 == 0x1800_0000;
    is_branch || is_conditional || is_computed || reads_pc
}

/// The first instruction; one that is none where there is no code.
fn first(code: &[u8]) -> u32 {
    code.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{is_emulated, landing_pad};

    /// What functions begin with: a mark is stepped over, a signature is not, and the usual `stp` has to be run.
    #[test]
    fn what_functions_begin_with() {
        let at = |code: u32| code.to_le_bytes();
        assert_eq!([0xd503_245f, 0xd503_233f, 0xa9be_7bfd].map(|code| landing_pad(&at(code))), [4, 0, 0]);
        // b, bl, b.eq, cbz, tbnz, br x16, blr x1, ret, adr, adrp, ldr x0 by distance
        let emulated = [
            0x1400_0001,
            0x9400_0001,
            0x5400_0040,
            0xb400_0040,
            0x3700_0040,
            0xd61f_0200,
            0xd63f_0020,
            0xd65f_03c0,
            0x1000_0000,
            0x9000_0000,
            0x5800_0040,
        ];
        for code in emulated {
            assert!(is_emulated(&at(code)), "{code:x}");
        }
        // stp, sub sp, paciasp, mov w0, ldr x0 by a register, no code
        for code in [0xa9be_7bfd, 0xd100_43ff, 0xd503_233f, 0x2a00_03e0, 0xf940_0000, 0] {
            assert!(!is_emulated(&at(code)), "{code:x}");
        }
        assert!(!is_emulated(&[]) && landing_pad(&[0x5f]) == 0);
    }
}
