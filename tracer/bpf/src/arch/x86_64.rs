//! x86-64: where the kernel keeps the thread pointer, how the CPU's PMU is called, how a virtual CPU is known, and two functions to probe.
//!
//! Leaves out which event samples (`sampling/event.rs`), and what a probe costs (`call_counts.rs`).

use std::arch::naked_asm;
use std::fs;
use std::path::Path;

/// The field of `task_struct` with a thread's pointer to its own data (arch/x86/include/asm/processor.h, v5.10).
pub(crate) const TASK_THREAD_POINTER: &str = "thread.fsbase";

/// Whether it is known where the registers of user mode lie on kernels without a helper that gives them.
pub(crate) const FINDS_REGISTERS: bool = true;

/// The walkers need not know which bits an address has.
pub(crate) const fn address_bits() -> Option<u64> {
    None
}

/// Whether a folder of a PMU is that of CPUs: it is called `cpu`, or `cpu_core` on hybrid processors (Documentation/ABI/testing, event_source, v6.1).
pub(crate) fn is_pmu_of_cpus(device: &Path) -> bool {
    ["cpu", "cpu_core"].iter().any(|name| device.ends_with(name))
}

/// Whether `/proc/cpuinfo` below `root` has the flag `hypervisor` (CPUID leaf 1, ECX bit 31: never set on a real CPU).
pub(crate) fn is_virtual(root: &Path) -> bool {
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Begins with an instruction that the kernel emulates.
#[unsafe(naked)]
pub(crate) extern "C" fn emulated() {
    naked_asm!("push rbp", "pop rbp", "ret")
}

/// Begins with an instruction that the kernel has to step through.
#[unsafe(naked)]
pub(crate) extern "C" fn stepped() {
    naked_asm!("mov eax, eax", "ret")
}
