//! x86-64: where the kernel keeps the thread pointer, how the CPU's PMU is called, how a virtual CPU is known, and two functions to probe.
//!
//! Leaves out which event samples (`sampling/event.rs`), and what a probe costs (`call_counts.rs`).

use std::arch::naked_asm;

/// The field of `task_struct` with a thread's pointer to its own data (arch/x86/include/asm/processor.h, v5.10).
pub(crate) const TASK_THREAD_POINTER: &str = "thread.fsbase";

/// The CPU's own PMU is `cpu`, or `cpu_core` on hybrid processors (Documentation/ABI/testing, event_source, v6.1).
pub(crate) const PMUS: [&str; 2] = ["cpu", "cpu_core"];

/// Whether `/proc/cpuinfo` has the flag `hypervisor` (CPUID leaf 1, ECX bit 31: never set on a real CPU).
pub(crate) fn is_virtual(cpuinfo: &str) -> bool {
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
