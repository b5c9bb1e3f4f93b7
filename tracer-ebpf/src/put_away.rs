//! Code without unwind information whose caller needs no search: matrix kernels that move `rsp` to scratch memory, by where they keep the old one,
//! and functions that have nothing left to do but to return.
//!
//! No word near the stack pointer of the kernels is a return address. Leaves out what else is tried (`scan.rs`).

use crate::memory::Memory;
use crate::native::{NativeWalk, Tables, place};
use crate::rows::base;
use crate::scan::{is_behind_call, is_behind_indirect, is_frame_pointer, is_pc};
use crate::wire::FIRST_PC;

const PAGE: u64 = 4096;

/// OpenBLAS' kernels: bytes of their frame, and of the scratch memory below it.
///
/// They begin with `sub FRAME, %rsp`, save `rbx` and `rbp` at its low end, keep `rsp` in `rbx` and move it: `sub SCRATCH, %rsp; and $-4096,
/// %rsp` (OpenBLAS 0.3.23, `kernel/x86_64/dgemm_kernel_4x8_haswell.S`: `STACKSIZE`, `L_BUFFER_SIZE`). Of 366 functions that move `rsp` to
/// a page in numpy 1.25's library, 284 do so with these numbers; the others are for processors of before 2011, or keep `rsp` in `r15`.
const OPENBLAS: [(u64, u64); 4] = [(0x60, 0x7080), (0x60, 0x2080), (0x40, 0x3880), (0x40, 0x4080)];

/// The caller of a matrix kernel that is known by where it keeps its stack pointer, or of a function that only returns.
#[inline(always)]
pub fn leave_kernel(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    if walk.returned != 0 {
        return leave_returning(walk, memory);
    }
    leave_openblas(walk, tables, memory).or_else(|| leave_onednn(walk, tables, memory))
}

/// The caller of a function that gives its frame back and returns as soon as its callee has: `add $N, %rsp; ret` or `pop %rbp; ret`. CPython's
/// trampolines for perf do so (Python/asm_trampoline.S, 3.12 and later).
#[inline(always)]
pub fn leave_returning(walk: &NativeWalk, memory: &impl Memory) -> Option<NativeWalk> {
    let code = memory.read_word(walk.pc)?;
    let (frame, bp) = if code & 0xffff == 0xc35d {
        (8, memory.read_word(walk.sp)?)
    } else if code & 0xff_87ff_ffff == 0xc3_00c4_8348 {
        (code >> 24 & 0x78, walk.bp)
    } else {
        return None;
    };
    let pc = memory.read_word(walk.sp.wrapping_add(frame)).filter(|&pc| is_pc(pc))?;
    Some(NativeWalk { pc, bp, sp: walk.sp.wrapping_add(frame + 8), ..*walk })
}

/// The caller of one of OpenBLAS' kernels: `rbx` and `rsp` have the distance that only its first instructions make.
#[inline(always)]
pub fn leave_openblas(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    if !walk.sp.is_multiple_of(PAGE) || walk.returned != 0 || walk.bx_at != place::INTERRUPTED {
        return None;
    }
    let kept = tables.interrupted(base::RBX)?;
    let is_kernel = |&(_, scratch): &(u64, u64)| kept.wrapping_sub(scratch) & !(PAGE - 1) == walk.sp;
    let (frame, _) = OPENBLAS.into_iter().find(is_kernel)?;
    let sp = kept.wrapping_add(frame + 8);
    let pc = memory.read_word(kept.wrapping_add(frame))?;
    if !is_behind_call(pc, memory) {
        return None;
    }
    let bp = memory.read_word(kept.wrapping_add(8))?;
    Some(NativeWalk { pc, sp, bp, returned: 1, bx_at: kept, others_at: place::UNKNOWN })
}

/// Where oneDNN's matrix products keep the old `rsp`, in bytes above the page to which they move it: those for AVX-512, and those for AVX and
/// AVX2 (oneDNN `src/cpu/x64/gemm/f32/jit_avx512_common_gemm_f32.cpp` and `jit_avx_gemm_f32.cpp`, `ORIG_SP`). In 135 of 135 stops of JAX with
/// AVX-512, and 6 of 6 of TensorFlow with AVX2, the return address lay six words above what was kept.
const ONEDNN: [u64; 2] = [120, 152];

/// Bytes that oneDNN's kernels push before that: `rbx`, `rbp` and `r12` to `r15` (`jit_generator.hpp`, `abi_save_gpr_regs`; older versions push
/// `rbx` first, newer ones `rbp`). The return address lies above them.
const PUSHED: u64 = 48;

/// The caller of one of oneDNN's matrix products, also in XLA and TensorFlow: where the old `rsp` is kept, six words below the return address of
/// an indirect call from which two more steps succeed.
#[inline(always)]
pub fn leave_onednn(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    if !walk.sp.is_multiple_of(PAGE) || walk.returned != 0 {
        return None;
    }
    ONEDNN.into_iter().find_map(|place| {
        let kept = memory.read_word(walk.sp.wrapping_add(place)).filter(|kept| kept % 8 == 0)?;
        let pc = memory.read_word(kept.wrapping_add(PUSHED)).filter(|&pc| is_pc(pc))?;
        let sp = kept.wrapping_add(PUSHED + 8);
        let first = memory.read_word(kept.wrapping_add(PUSHED - 8))?;
        let second = memory.read_word(kept.wrapping_add(PUSHED - 16))?;
        let bp = if is_frame_pointer(first, sp) { first } else { second };
        let caller = NativeWalk { pc, sp, bp, returned: 1, ..NativeWalk::default() };
        (is_behind_indirect(pc, memory) && tables.goes_on(caller, memory) >= 2).then_some(caller)
    })
}

/// Where the stack was before code without unwind information moved `rsp` to a buffer of its own.
///
/// For kernels that keep it where oneDNN's for AVX-512 do, in scratch memory that is often not on the stack, but push something else
/// (`leave_onednn`). Only a place to scan from: what is found there has to hold as anywhere.
#[inline(always)]
pub fn stack_put_away(walk: &NativeWalk, memory: &impl Memory) -> Option<u64> {
    if !walk.sp.is_multiple_of(PAGE) {
        return None;
    }
    memory.read_word(walk.sp.wrapping_add(ONEDNN[0])).filter(|sp| sp % 8 == 0 && *sp >= FIRST_PC)
}
