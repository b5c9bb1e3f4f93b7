//! What only one kind of processor has: fields of the kernel, which PMU is the CPU's, instructions. Each kind is a file with the same
//! names, of which one is compiled; no other file of this package knows a kind.
//!
//! Leaves out what the walkers and unwind rows need (`tracer_ebpf::arch`, package `unwind`).

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use self::aarch64::{
    FINDS_REGISTERS, TASK_THREAD_POINTER, address_bits, emulated, is_pmu_of_cpus, is_virtual, stepped,
};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::{
    FINDS_REGISTERS, TASK_THREAD_POINTER, address_bits, emulated, is_pmu_of_cpus, is_virtual, stepped,
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "energy-trace knows x86-64 and aarch64: for another processor write its file beside each arch/x86_64.rs, with the same names"
);
