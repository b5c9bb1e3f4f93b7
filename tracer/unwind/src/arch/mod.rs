//! What only one kind of processor has: what its instructions do to a stack, and what compilers and run-times write down of it. Each kind is a
//! file with the same names, of which one is compiled; no other file of this package knows a register or an instruction.
//!
//! A kind's file uses nothing of this package but `code_rule`. What the walkers need is in `tracer_ebpf::arch`.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::{RELATIVE_RELOCATION, cfi, frame_state, go, instruction, load};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "energy-trace knows x86-64 alone: for another processor write its file beside each arch/x86_64.rs, with the same names"
);
