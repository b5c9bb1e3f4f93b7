//! Places of user registers in a raw capture: the words of `struct pt_regs` (arch/x86/include/asm/ptrace.h, v6.1).
//!
//! Leaves out those that nobody asks for.

/// `r15`.
pub const R15: usize = 0;
/// `r14`.
pub const R14: usize = 1;
/// `r13`.
pub const R13: usize = 2;
/// `r12`.
pub const R12: usize = 3;
/// `rbp`.
pub const RBP: usize = 4;
/// `rbx`.
pub const RBX: usize = 5;
/// `r10`.
pub const R10: usize = 7;
/// `rip`.
pub const RIP: usize = 16;
/// `cs`: which kind of code runs.
pub const CS: usize = 17;
/// What it is while 32-bit code runs (`__USER32_CS`, arch/x86/include/asm/segment.h, v5.10).
pub const CS_OF_32_BITS: u64 = 0x23;
/// `rsp`.
pub const RSP: usize = 19;
/// Words of `struct pt_regs`.
pub const COUNT: usize = 21;

/// Place of a register by DWARF's number, but for `rsp`. A nibble each, the lowest first: rax, rdx, rcx, rbx, rsi, rdi, rbp, (rsp), r8…r15.
pub const fn of_dwarf(number: u32) -> usize {
    (0x0123_6789_04ed_5bca_u64 >> ((number & 15) * 4) & 15) as usize
}
