//! aarch64: where the kernel keeps the thread pointer, which PMU is the CPU's, how a virtual CPU is known, and two functions to probe.
//!
//! Leaves out which event samples (`sampling/event.rs`), and what a probe costs (`call_counts.rs`).

mod address;

pub(crate) use self::address::address_bits;

use energy_trace_system::host::firmware::is_guest_at;
use std::arch::naked_asm;
use std::path::Path;

/// The field of `task_struct` with a thread's pointer to its own data, as it was when the thread last left its CPU
/// (arch/arm64/include/asm/processor.h, v5.10).
pub(crate) const TASK_THREAD_POINTER: &str = "thread.uw.tp_value";

/// Whether it is known where the registers of user mode lie on kernels without a helper that gives them: how large a kernel stack is hangs on the
/// kernel's pages (arch/arm64/include/asm/memory.h, v5.10, `THREAD_SHIFT`).
pub(crate) const FINDS_REGISTERS: bool = false;

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
