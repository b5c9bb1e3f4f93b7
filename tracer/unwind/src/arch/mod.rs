//! What only one kind of processor has: what its instructions do to a stack, and what compilers and run-times write down of it. Each kind is a
//! file with the same names, of which one is compiled; no other file of this package knows a register or an instruction.
//!
//! A kind's file uses nothing of this package but `code_rule`. What the walkers need is in `tracer_ebpf::arch`. As there, any build can
//! be told another processor.

/// Files of which processor mark in their symbol table where code begins, `$x`, and data, `$d` (ELF for the Arm 64-bit Architecture 2023Q3, §5.7).
pub(crate) use object::elf::EM_AARCH64 as MARKING_MACHINE;

#[cfg(any(bpf_target_arch = "aarch64", target_arch = "aarch64"))]
mod aarch64;
#[cfg(any(bpf_target_arch = "aarch64", target_arch = "aarch64"))]
pub(crate) use self::aarch64::{
    RELATIVE_RELOCATION, cfi, frame_state, go, instruction, is_nop, load, plt, variable,
};

#[cfg(all(target_arch = "x86_64", not(bpf_target_arch = "aarch64")))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(bpf_target_arch = "aarch64")))]
pub(crate) use self::x86_64::{
    RELATIVE_RELOCATION, cfi, frame_state, go, instruction, is_nop, load, plt, variable,
};

#[cfg(test)]
pub(crate) mod tests;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "energy-trace knows x86-64 and aarch64: for another processor write its file beside each arch/x86_64.rs, with the same names"
);
