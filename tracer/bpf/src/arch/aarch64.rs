//! aarch64: where the kernel keeps the thread pointer, which bits an address has, which PMU is the CPU's, how a virtual CPU is known, and two functions to probe.
//!
//! Leaves out which event samples (`sampling/event.rs`), and what a probe costs (`call_counts.rs`).

use energy_trace_system::host::firmware::is_guest_at;
use std::arch::{asm, naked_asm};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tracer_ebpf::arch::frame::ADDRESS_BITS;

/// The field of `task_struct` with a thread's pointer to its own data, as it was when the thread last left its CPU
/// (arch/arm64/include/asm/processor.h, v5.10).
pub(crate) const TASK_THREAD_POINTER: &str = "thread.uw.tp_value";

/// Whether it is known where the registers of user mode lie on kernels without a helper that gives them: how large a kernel stack is hangs on the
/// kernel's pages (arch/arm64/include/asm/memory.h, v5.10, `THREAD_SHIFT`).
pub(crate) const FINDS_REGISTERS: bool = false;

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

/// Whether a folder of a PMU is that of CPUs: those have a file that names them (drivers/perf/arm_pmu.c, v6.1, `armpmu_common_attr_group`), and all
/// sorts of names (`armv8_pmuv3_0`, `armv8_cortex_a76`).
pub(crate) fn is_pmu_of_cpus(device: &Path) -> bool {
    device.join("cpus").exists()
}

/// Whether firmware says that the machine below `root` is a virtual one; the CPU itself does not.
pub(crate) fn is_virtual(root: &Path) -> bool {
    is_guest_at(&root.join("sys")).unwrap_or(false)
}

/// Begins with an instruction that the kernel emulates.
#[unsafe(naked)]
pub(crate) extern "C" fn emulated() {
    naked_asm!("adr x9, .", "ret")
}

/// Begins with an instruction that the kernel has to step through.
#[unsafe(naked)]
pub(crate) extern "C" fn stepped() {
    naked_asm!("mov w9, w9", "ret")
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
