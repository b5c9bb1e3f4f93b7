//! x86-64: the registers of a sample, the kernel's entry and stacks, signal frames, calls and where their arguments are.
//!
//! Sources: System V ABI AMD64 1.0; Intel SDM vol. 1 and 2A; Linux v6.1, `arch/x86`. Leaves out what the code of run-times looks like
//! (`hotspot.rs`, `v8.rs` below).

pub mod call;
pub mod hotspot;
pub mod matrix_kernel;
pub mod v8;

/// Words of `struct pt_regs`, as a raw capture has them (arch/x86/include/asm/ptrace.h, v6.1).
pub mod register {
    /// The program counter, `rip`.
    pub const PC: usize = 16;
    /// The stack pointer, `rsp`.
    pub const SP: usize = 19;
    /// The frame pointer, `rbp`.
    pub const FP: usize = 4;
    /// What a function gives back, `rax`.
    pub const RESULT: usize = 10;
    /// Where a function, at its first instruction, has its return address: in this register; `None`: on top of the stack.
    pub const RETURNS_TO: Option<usize> = None;
    /// The first arguments of a function: `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    pub const ARGUMENTS: [usize; 6] = [14, 13, 12, 11, 9, 8];
    /// How many words there are.
    pub const COUNT: usize = 21;

    /// `cs`: which kind of code runs.
    const CS: usize = 17;
    /// What it is while 32-bit code runs (`__USER32_CS`, arch/x86/include/asm/segment.h, v5.10).
    const CS_OF_32_BITS: u64 = 0x23;

    /// Whether the code is that of a 32-bit program.
    #[inline(always)]
    pub const fn runs_32_bits(registers: &[u64; COUNT]) -> bool {
        registers[CS] & 0xffff == CS_OF_32_BITS
    }

    /// Place of a register by DWARF's number, but for `rsp`. A nibble each, the lowest first: rax, rdx, rcx, rbx, rsi, rdi, rbp, (rsp), r8…r15.
    pub const fn of_dwarf(number: u32) -> usize {
        (0x0123_6789_04ed_5bca_u64 >> ((number & 15) * 4) & 15) as usize
    }
}

/// DWARF's numbers of registers (System V ABI AMD64 1.0, §3.6.2).
pub mod dwarf {
    /// The stack pointer, `rsp`.
    pub const SP: u32 = 7;
    /// The frame pointer, `rbp`.
    pub const FP: u32 = 6;
    /// The register that has the return address until a function calls another one: none.
    pub const LINK: Option<u32> = None;
    /// The one register besides that walks follow through callers, because some code finds its CFA by it: `rbx`.
    pub const CALLEE_SAVED: u32 = 3;
    /// The last register, `r15`.
    pub const LAST: u32 = 15;
}

/// What the kernel keeps of the code that it interrupted.
pub mod kernel {
    /// Bytes of a page of user memory.
    pub const PAGE: u64 = 4096;
    /// Bytes of a kernel stack: `THREAD_SIZE` (arch/x86/include/asm/page_64_types.h, v5.10; twice that with KASAN only).
    pub const STACK_BYTES: u64 = 16384;
    /// Bytes of `struct pt_regs` at its top: the registers alone.
    pub const SAVED_BYTES: u64 = 8 * super::register::COUNT as u64;
    /// Offset in `struct pt_regs` of what `is_user_mode` looks at: `cs`.
    pub const MODE: usize = 136;
    /// Offset of the stack pointer there.
    pub const SP: usize = 152;

    /// The entry area of all CPUs, where the kernel runs for some instructions before it is on the thread's own stack
    /// (`CPU_ENTRY_AREA_PGD`, arch/x86/include/asm/pgtable_64_types.h, v6.1): 512 GiB.
    const ENTRY_AREA: u64 = 0xffff_fe00_0000_0000 >> 39;

    /// Whether user mode was interrupted: the lowest bits of `cs` are the privilege level.
    #[inline(always)]
    pub const fn is_user_mode(mode: u64) -> bool {
        mode & 3 == 3
    }

    /// Whether the kernel is on no thread's stack yet.
    #[inline(always)]
    pub const fn is_entry_stack(sp: u64) -> bool {
        sp >> 39 == ENTRY_AREA
    }
}

/// Offsets of registers in the `ucontext` that a signal frame holds at the stack pointer (arch/x86/include/uapi/asm/sigcontext.h, v6.1:
/// `uc_mcontext` begins 40 bytes in).
pub mod signal_frame {
    /// Of the program counter.
    pub const PC: u64 = 40 + 16 * 8;
    /// Of the stack pointer.
    pub const SP: u64 = 40 + 15 * 8;
    /// Of the frame pointer.
    pub const FP: u64 = 40 + 10 * 8;
    /// Of `dwarf::CALLEE_SAVED`.
    pub const CALLEE_SAVED: u64 = 40 + 11 * 8;

    /// Of a register by DWARF's number. A nibble each, the lowest first: the order there is r8…r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    pub const fn register(number: u32) -> u64 {
        40 + (0x7654_3210_fa89_becd >> ((number & 15) * 4) & 15) * 8
    }

    /// Whether this code returns from a signal handler: `mov $15, %rax; syscall`, and the same by `%eax` (`rt_sigreturn`, 15:
    /// arch/x86/entry/syscalls/syscall_64.tbl).
    #[inline(always)]
    pub const fn is_return(code: u64) -> bool {
        const BY_RAX: u64 = 0x0f00_0000_0fc0_c748;
        const BY_EAX: u64 = 0x05_0f00_0000_0fb8;
        code == BY_RAX || code & (u64::MAX >> 8) == BY_EAX
    }
}

/// Entries of a procedure linkage table, whose unwind rule is an expression.
pub mod plt {
    /// The CFA in an entry: `rsp + 8 + ((rip & 15) >= 11) * 8`; `form` tells 11 (not 0) from 10 (0, for entries of 16 bytes with `endbr64`).
    #[inline(always)]
    pub const fn cfa(pc: u64, sp: u64, form: i64) -> u64 {
        let pushed = if form != 0 { 11 } else { 10 };
        sp.wrapping_add(if pc & 15 >= pushed { 16 } else { 8 })
    }
}

/// Where a thread's own data is. What is kept of it in one number is where thread-specific data lies.
pub mod thread {
    /// Bytes from the thread pointer to the first block of thread-specific data: glibc's `struct pthread` → `specific_1stblock`
    /// (nptl/descr.h, 2.36; the same from 2.4 to 2.41). Where it differs the thread's state is not validated there, and the list of threads
    /// serves.
    pub const SPECIFIC_DATA: u32 = 0x310;

    /// libc need not be asked: it is the same in all versions.
    pub const IS_TOLD: bool = false;
    /// The same with musl, whose thread-specific data lies elsewhere.
    pub const OF_MUSL: u32 = SPECIFIC_DATA;

    /// Nothing is asked.
    pub const fn told_by_libc(_descriptor: u32, _blocks: u32) -> Option<u32> {
        None
    }

    /// Bytes from the thread pointer to that of the vector of modules' thread-local variables (glibc's `tcbhead_t` → `dtv`).
    pub const VECTOR: u64 = 8;

    /// Bytes from the thread pointer to the byte `at` of a program's own thread-local variables, which are so many bytes, aligned so.
    pub const fn of_program(bytes: u64, align: u64, at: u64) -> Option<i64> {
        match bytes.checked_next_multiple_of(if align == 0 { 1 } else { align }) {
            Some(bytes) if at < bytes && bytes < 1 << 32 => Some(at as i64 - bytes as i64),
            _ => None,
        }
    }

    /// Whether the argument of a TLS descriptor is a distance from the thread pointer, and not the address of a place: thread-local variables
    /// lie below the thread pointer.
    pub const fn is_distance(argument: u64) -> bool {
        argument.cast_signed() < 0
    }

    /// The thread's descriptor (`pthread_self`), by the thread pointer: it points there.
    #[inline(always)]
    pub const fn descriptor(pointer: u64, _places: u32) -> u64 {
        pointer
    }

    /// From there to the first block of thread-specific data.
    #[inline(always)]
    pub const fn specific_data(places: u32) -> u64 {
        places as u64
    }

    /// Where a program's own thread-local variables begin, of so many bytes: right below the thread pointer (ELF Handling For Thread-Local
    /// Storage, variant II).
    pub const fn block(descriptor: u64, _places: u32, bytes: u64) -> u64 {
        descriptor.wrapping_sub(bytes)
    }

    /// How far away from the descriptor the byte `at` of that block is.
    pub const fn distance(_places: u32, bytes: u64, at: u64) -> u64 {
        bytes - at
    }

    /// The address of a program's own thread-local variable so many bytes away from the descriptor.
    #[inline(always)]
    pub const fn variable(descriptor: u64, distance: u64) -> u64 {
        descriptor.wrapping_sub(distance)
    }
}

/// What a frame looks like whose rule fits eight bytes.
pub mod frame {
    use crate::memory::Memory;

    /// Bytes that a call pushes, right below the CFA: the return address.
    pub const PUSHED_BY_CALL: u64 = 8;
    /// How far below the stack pointer a frame pointer may point.
    pub const POINTS_BELOW: u64 = 0;
    /// Whether a caller's stack pointer is right above where its return address was found.
    pub const ENDS_AT_RETURN_ADDRESS: bool = true;

    /// Whether a frame is one: its CFA lies above the stack pointer. `saved` is the frame pointer's save slot from the CFA, 0 where it is unchanged.
    #[inline(always)]
    pub const fn grows(cfa: u64, sp: u64, _saved: i64, _is_innermost: bool) -> bool {
        cfa > sp
    }

    /// The return address, `saved` as above; `interrupted` gives a register by DWARF's number where the code was interrupted.
    #[inline(always)]
    pub fn return_address(
        cfa: u64,
        _saved: i64,
        _interrupted: impl FnOnce(u32) -> Option<u64>,
        memory: &impl Memory,
    ) -> Option<u64> {
        memory.read_word(cfa.wrapping_sub(PUSHED_BY_CALL))
    }

    /// The return address of a frame that is left by its CFA alone, `down` being how far below that its frame pointer is saved (0: nowhere).
    #[inline(always)]
    pub fn caller_of(cfa: u64, _down: &u32, memory: &impl Memory) -> Option<u64> {
        memory.read_word(cfa.wrapping_sub(PUSHED_BY_CALL))
    }

    /// The address that a return address means: all of its bits.
    #[inline(always)]
    pub const fn code_address(word: u64) -> u64 {
        word
    }

    /// The stack pointer of a function that is known by its frame pointer: it needs none, see `ENDS_AT_RETURN_ADDRESS`.
    #[inline(always)]
    pub const fn stack_pointer(_fp: u64, _saved: i64, _offset: i64) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::kernel::is_entry_stack;
    use crate::reach::are_being_saved;

    /// Registers are not whole on the entry stack, wherever they will lie.
    #[test]
    fn the_entry_stack() {
        assert!(are_being_saved(0xffff_fe00_0001_2000, 0xffff_c900_0000_3f58, 168));
        assert!(!is_entry_stack(0xffff_c900_0012_0000));
    }
}
