//! What only one kind of processor has: its registers, its instructions, and what kernels and run-times keep of both. Each kind is a file with
//! the same names, of which one is compiled; no other file of this package knows a register or an instruction.
//!
//! The programs are compiled for BPF, so that the processor they watch is told to them by `bpf_target_arch` (`xtask/src/bpf.rs`); so can any
//! build, which then walks stacks of another processor than its own. A kind's file uses nothing of this package but `memory`. Leaves out what is
//! done with all that.

#[cfg(any(bpf_target_arch = "aarch64", all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))))]
mod aarch64;
#[cfg(any(bpf_target_arch = "aarch64", all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))))]
pub use self::aarch64::{
    call, dwarf, frame, hotspot, kernel, matrix_kernel, plt, register, signal_frame, thread, v8,
};

#[cfg(any(bpf_target_arch = "x86_64", all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))))]
mod x86_64;
#[cfg(any(bpf_target_arch = "x86_64", all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))))]
pub use self::x86_64::{
    call, dwarf, frame, hotspot, kernel, matrix_kernel, plt, register, signal_frame, thread, v8,
};

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    bpf_target_arch = "x86_64",
    bpf_target_arch = "aarch64"
)))]
compile_error!(
    "energy-trace knows x86-64 and aarch64: for another processor write its file beside each arch/x86_64.rs, with the same names"
);

/// How much of a frame is there that HotSpot makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The return address.
    None,
    /// And the caller's frame pointer.
    Pushed,
    /// All of it, but the frame pointer is not saved yet.
    Unsaved,
    /// All of it.
    Whole,
}
