//! Which bits an address has on this kernel, as the processor knows. Leaves out where addresses are read (`tracer_ebpf::arch`).
//!
//! It uses nothing of this package, so that `cargo xtask test` makes its test alone and runs it under an emulator.

use std::arch::asm;
use std::sync::atomic::Ordering::Relaxed;
use tracer_ebpf::arch::frame::ADDRESS_BITS;

/// The bits of an address of code on this kernel, told to the walkers here too.
pub(crate) fn address_bits() -> Option<u64> {
    let bits = without_signature(UNTAGGED);
    ADDRESS_BITS.store(bits, Relaxed);
    Some(bits)
}

/// All bits below the highest byte, but for the one that tells the kernel's addresses from a program's.
const UNTAGGED: u64 = (1 << 55) - 1;

/// An address without its signature, by the processor. It knows from the kernel which bits that has (`TCR_EL1.T0SZ`), as `NT_ARM_PAC_MASK` says too;
/// for that a process has to be stopped. Processors that sign nothing do nothing (Arm ARM DDI 0487J, C6.2.474, `XPACLRI`).
fn without_signature(address: u64) -> u64 {
    let mut address = address;
    // SAFETY: the instruction changes this register alone.
    unsafe { asm!("hint #7", inout("x30") address, options(nomem, nostack, preserves_flags)) };
    address
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_BITS, Relaxed, UNTAGGED, address_bits, asm};

    /// The bits are those from the lowest on, of at least 36, and all that an address of this program has. Where the processor signs, its signature is
    /// in none of them.
    #[test]
    fn which_bits_an_address_has() {
        let bits = address_bits().unwrap();
        assert!((bits + 1).is_power_of_two() && (1 << 36..=UNTAGGED).contains(&bits), "{bits:x}");
        assert_eq!(ADDRESS_BITS.load(Relaxed), bits);
        let local = 0_u64;
        for address in [address_bits as *const () as u64, &raw const local as u64] {
            let mut signed = address;
            // SAFETY: `pacia1716` changes this register alone.
            unsafe { asm!("hint #8", inout("x17") signed, in("x16") 7_u64) };
            assert_eq!((address & bits, signed & bits), (address, address), "{signed:x}");
        }
    }
}
