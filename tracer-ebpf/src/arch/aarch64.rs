//! aarch64: the registers of a sample, the kernel's stacks, signal frames, where a frame keeps its return address, and where its arguments are.
//!
//! A call leaves its return address in `x30`. Functions that call save it right above the caller's `x29`, so that one slot says where both are;
//! a row whose slot is 0 says that it is in `x30` still, which is so in the interrupted function alone. Signed return addresses (pointer
//! authentication) have other bits above those of an address, which are taken away wherever one is read.
//!
//! Sources: AAPCS64 2023Q3; DWARF for the Arm 64-bit Architecture 2023Q3; Arm ARM DDI 0487J; Linux v6.1, `arch/arm64`. Leaves out code of
//! HotSpot and V8, which is scanned as any code without unwind information.

pub mod call;
pub mod hotspot;
pub mod matrix_kernel;
pub mod v8;

/// `x30`.
const LINK: u32 = 30;

/// Words of `struct user_pt_regs`, with which `struct pt_regs` begins (arch/arm64/include/uapi/asm/ptrace.h, v6.1): `x0` to `x30`, `sp`, `pc`,
/// `pstate`.
pub mod register {
    /// The program counter.
    pub const PC: usize = 32;
    /// The stack pointer.
    pub const SP: usize = 31;
    /// The frame pointer, `x29`.
    pub const FP: usize = 29;
    /// What a function gives back, `x0`.
    pub const RESULT: usize = 0;
    /// Where a function, at its first instruction, has its return address: `x30`.
    pub const RETURNS_TO: Option<usize> = Some(30);
    /// The first arguments of a function: `x0` to `x7`.
    pub const ARGUMENTS: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    /// How many words there are.
    pub const COUNT: usize = 34;

    /// `pstate`: which kind of code runs.
    const MODE: usize = 33;
    /// The bit that is set while 32-bit code runs (`PSR_MODE32_BIT`).
    const RUNS_32_BITS: u64 = 0x10;

    /// Whether the code is that of a 32-bit program.
    #[inline(always)]
    pub const fn runs_32_bits(registers: &[u64; COUNT]) -> bool {
        registers[MODE] & RUNS_32_BITS != 0
    }

    /// Place of a register by DWARF's number: they have the same order, up to `sp`.
    pub const fn of_dwarf(number: u32) -> usize {
        (number & 31) as usize
    }
}

/// DWARF's numbers of registers (DWARF for the Arm 64-bit Architecture, §4.1).
pub mod dwarf {
    /// The stack pointer.
    pub const SP: u32 = 31;
    /// The frame pointer, `x29`.
    pub const FP: u32 = 29;
    /// The register that has the return address until a function calls another one, `x30`.
    pub const LINK: Option<u32> = Some(super::LINK);
    /// No register besides is followed through callers: compilers find a CFA by the two above.
    pub const CALLEE_SAVED: u32 = 0xff;
    /// The last register that an operand may start from.
    pub const LAST: u32 = 31;
}

/// What the kernel keeps of the code that it interrupted.
pub mod kernel {
    /// Bytes of the largest page of user memory (`CONFIG_ARM64_64K_PAGES`). Files are linked for it, so that their segments share none.
    pub const PAGE: u64 = 1 << 16;
    /// Bytes of a kernel stack: `THREAD_SIZE` (arch/arm64/include/asm/memory.h, v5.10), with pages of up to 16 KiB.
    pub const STACK_BYTES: u64 = 16384;
    /// Bytes of `struct pt_regs` at its top (arch/arm64/include/asm/ptrace.h, v5.10 to v5.14: behind the registers lie nine words more, with padding).
    pub const SAVED_BYTES: u64 = 336;
    /// Offset in `struct pt_regs` of what `is_user_mode` looks at: `pstate`.
    pub const MODE: usize = 33 * 8;
    /// Offset of the stack pointer there.
    pub const SP: usize = 31 * 8;

    /// Whether user mode was interrupted: exception level 0 (`PSR_MODE_MASK` without `PSR_MODE32_BIT`).
    #[inline(always)]
    pub const fn is_user_mode(mode: u64) -> bool {
        mode & 0xf == 0
    }

    /// Whether the kernel is on no thread's stack yet: it enters on that of the thread, and nothing interrupts it until all registers are saved
    /// (arch/arm64/kernel/entry.S, v6.1, `kernel_entry`).
    #[inline(always)]
    pub const fn is_entry_stack(_sp: u64) -> bool {
        false
    }
}

/// Offsets of registers in the signal frame at the stack pointer: a `siginfo` of 128 bytes, and a `ucontext` whose `uc_mcontext` begins 176 bytes
/// in, with a word before `x0` (arch/arm64/kernel/signal.c, `struct rt_sigframe`; arch/arm64/include/uapi/asm/sigcontext.h, v6.1).
pub mod signal_frame {
    const X0: u64 = 128 + 176 + 8;
    /// Of the program counter.
    pub const PC: u64 = X0 + 32 * 8;
    /// Of the stack pointer.
    pub const SP: u64 = register(super::dwarf::SP);
    /// Of the frame pointer.
    pub const FP: u64 = register(super::dwarf::FP);
    /// No such register is followed.
    pub const CALLEE_SAVED: u64 = X0;

    /// Of a register by DWARF's number.
    pub const fn register(number: u32) -> u64 {
        X0 + (number & 31) as u64 * 8
    }

    /// Whether this code returns from a signal handler: `mov x8, #139; svc #0` (`rt_sigreturn`, 139: include/uapi/asm-generic/unistd.h). The
    /// vDSO's says nothing of itself (arch/arm64/kernel/vdso/sigreturn.S, v5.8 and later).
    #[inline(always)]
    pub const fn is_return(code: u64) -> bool {
        code == 0xd400_0001_d280_1168
    }
}

/// Entries of a procedure linkage table. They leave the stack and `x30` alone, and no unwind information says so with an expression: no row has
/// this kind.
pub mod plt {
    /// The CFA in an entry.
    #[inline(always)]
    pub const fn cfa(_pc: u64, sp: u64, _form: i64) -> u64 {
        sp
    }
}

/// Where a thread's own data is: glibc's and musl's descriptor of a thread (`pthread_self`) lies below what the thread pointer points to.
///
/// Where the first block of thread-specific data lies depends on glibc's version, which says so itself (`_thread_db_sizeof_pthread`,
/// `_thread_db_pthread_specific`): both numbers are kept in one, the descriptor's size in the upper half.
pub mod thread {
    /// Whether libc is asked.
    pub const IS_TOLD: bool = true;
    /// Those of glibc 2.36: 1856 bytes, and `specific_1stblock` 272 bytes in (nptl/descr.h).
    pub const SPECIFIC_DATA: u32 = places(1856, 272);
    /// Those of musl 1.2 (src/internal/pthread_impl.h), whose thread-specific data lies elsewhere: there the list of threads serves.
    pub const OF_MUSL: u32 = places(200, 0);
    /// From where libc has its pointers to the blocks (`struct pthread` → `specific`, 32 blocks) back to the first block, which lies before them.
    const BLOCK_BYTES: u32 = 32 * 16;
    /// Bytes between the thread pointer and thread-local variables (ELF for the Arm 64-bit Architecture: the `TCB`).
    const RESERVED: u64 = 16;

    /// Both numbers in one.
    pub const fn places(descriptor: u32, block: u32) -> u32 {
        descriptor << 16 | block & 0xffff
    }

    /// The same by what libc says: bytes of a descriptor, and where the pointers to blocks lie in it. `None` where that cannot be.
    pub const fn told_by_libc(descriptor: u32, blocks: u32) -> Option<u32> {
        let fits = descriptor < 1 << 16 && blocks < descriptor && blocks >= BLOCK_BYTES;
        if fits { Some(places(descriptor, blocks - BLOCK_BYTES)) } else { None }
    }

    /// Bytes from the thread pointer to that of the vector of modules' thread-local variables (glibc's `tcbhead_t` → `dtv`).
    pub const VECTOR: u64 = 0;

    /// Bytes from the thread pointer to the byte `at` of a program's own thread-local variables, which are so many bytes, aligned so.
    pub const fn of_program(bytes: u64, align: u64, at: u64) -> Option<i64> {
        match RESERVED.checked_next_multiple_of(if align == 0 { 1 } else { align }) {
            Some(begin) if at < bytes && bytes < 1 << 32 && begin < 1 << 32 => Some((begin + at) as i64),
            _ => None,
        }
    }

    /// Whether the argument of a TLS descriptor is a distance from the thread pointer, and not the address of a place: no address is so small.
    pub const fn is_distance(argument: u64) -> bool {
        argument < 1 << 20
    }

    /// The thread's descriptor, by the thread pointer.
    #[inline(always)]
    pub const fn descriptor(pointer: u64, places: u32) -> u64 {
        pointer.wrapping_sub((places >> 16) as u64)
    }

    /// From there to the first block of thread-specific data.
    #[inline(always)]
    pub const fn specific_data(places: u32) -> u64 {
        (places & 0xffff) as u64
    }

    /// Where a program's own thread-local variables begin: above the thread pointer (ELF Handling For Thread-Local Storage, variant I).
    pub const fn block(descriptor: u64, places: u32, _bytes: u64) -> u64 {
        descriptor.wrapping_add(distance(places, 0, 0))
    }

    /// How far away from the descriptor the byte `at` of that block is.
    pub const fn distance(places: u32, _bytes: u64, at: u64) -> u64 {
        (places >> 16) as u64 + RESERVED + at
    }

    /// The address of a program's own thread-local variable so many bytes away from the descriptor.
    #[inline(always)]
    pub const fn variable(descriptor: u64, distance: u64) -> u64 {
        descriptor.wrapping_add(distance)
    }
}

/// What a frame looks like whose rule fits eight bytes.
pub mod frame {
    use super::LINK;
    use crate::memory::Memory;
    use core::sync::atomic::AtomicU64;

    /// Bytes that a call pushes: none.
    pub const PUSHED_BY_CALL: u64 = 0;
    /// How far below the stack pointer a frame pointer may point: Go's points to the word right below it (`src/cmd/internal/obj/arm64/obj7.go`).
    pub const POINTS_BELOW: u64 = 8;
    /// Whether a caller's stack pointer is right above where its return address was found: it is not, for what a function saves lies at the low
    /// end of its frame.
    pub const ENDS_AT_RETURN_ADDRESS: bool = false;

    /// Bits of an address of code: what lies above is a signature. User space writes what this kernel has, 36 to 52 of them, before it loads the
    /// probes; most have 48 (Documentation/arm64/memory.rst, v6.1).
    #[unsafe(no_mangle)]
    pub static ADDRESS_BITS: AtomicU64 = AtomicU64::new((1 << 48) - 1);

    /// Whether a frame is one: its CFA lies above the stack pointer, or nothing is on the stack, which can only be where no call was made since
    /// (`is_innermost`). `saved` is the frame pointer's save slot from the CFA, 0 where the return address is in `x30`.
    #[inline(always)]
    pub const fn grows(cfa: u64, sp: u64, saved: i64, is_innermost: bool) -> bool {
        if saved == 0 { is_innermost && cfa >= sp } else { cfa > sp }
    }

    /// The return address, `saved` as above; `interrupted` gives a register by DWARF's number where the code was interrupted.
    #[inline(always)]
    pub fn return_address(
        cfa: u64,
        saved: i64,
        interrupted: impl FnOnce(u32) -> Option<u64>,
        memory: &impl Memory,
    ) -> Option<u64> {
        if saved == 0 { interrupted(LINK) } else { memory.read_word(cfa.wrapping_add_signed(saved + 8)) }
    }

    /// The return address of a frame that is left by its CFA alone, `down` being how far below that its frame pointer is saved (0: nowhere).
    #[inline(always)]
    pub fn caller_of(cfa: u64, down: &u32, memory: &impl Memory) -> Option<u64> {
        if *down == 0 {
            return None;
        }
        memory.read_word(cfa.wrapping_sub(*down as u64).wrapping_add(8)).map(code_address)
    }

    /// The address that a return address means: without its signature.
    #[inline(always)]
    pub fn code_address(word: u64) -> u64 {
        // SAFETY: nobody writes the word while anybody walks; BPF's compiler has no atomic load.
        word & unsafe { ADDRESS_BITS.as_ptr().read_volatile() }
    }

    /// The stack pointer of a function that is known by its frame pointer: by its rule that pointer leads to the slot `saved` from the CFA, which
    /// is `offset` above the stack pointer. `None` where that says nothing.
    #[inline(always)]
    pub const fn stack_pointer(fp: u64, saved: i64, offset: i64) -> Option<u64> {
        if saved == 0 { None } else { Some(fp.wrapping_add_signed(-saved).wrapping_add_signed(-offset)) }
    }
}
