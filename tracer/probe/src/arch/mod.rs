//! What only one kind of processor has: which instructions its kernel emulates where they are probed. Each kind is a file with the same
//! names, of which one is compiled; no other file of this package knows a kind.
//!
//! Leaves out what the walkers and unwind rows need (`tracer_ebpf::arch`, package `unwind`).

#[cfg(any(bpf_target_arch = "aarch64", target_arch = "aarch64"))]
mod aarch64;
#[cfg(any(bpf_target_arch = "aarch64", target_arch = "aarch64"))]
pub(crate) use self::aarch64::{is_emulated, landing_pad};

#[cfg(all(target_arch = "x86_64", not(bpf_target_arch = "aarch64")))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(bpf_target_arch = "aarch64")))]
pub(crate) use self::x86_64::{is_emulated, landing_pad};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "energy-trace knows x86-64 and aarch64: for another processor write its file beside each arch/x86_64.rs, with the same names"
);
