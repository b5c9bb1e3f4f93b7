//! Where matrix kernels that move the stack pointer to scratch memory keep the old one.
//!
//! Leaves out how that is believed (`saved_stack_pointer.rs`).

/// The kernels move the stack pointer to where one begins.
pub use super::kernel::PAGE;

/// OpenBLAS' kernels: bytes of their frame, and of the scratch memory below it.
///
/// They begin with `sub FRAME, %rsp`, save `rbx` and `rbp` at its low end, keep `rsp` in `rbx` and move it: `sub SCRATCH, %rsp; and $-4096,
/// %rsp` (OpenBLAS 0.3.23, `kernel/x86_64/dgemm_kernel_4x8_haswell.S`: `STACKSIZE`, `L_BUFFER_SIZE`). Of 366 functions that move `rsp` to
/// a page in numpy 1.25's library, 284 do so with these numbers; the others are for processors of before 2011, or keep `rsp` in `r15`.
pub const OPENBLAS: [(u64, u64); 4] = [(0x60, 0x7080), (0x60, 0x2080), (0x40, 0x3880), (0x40, 0x4080)];

/// Where oneDNN's matrix products keep the old `rsp`, in bytes above the page to which they move it: those for AVX-512, and those for AVX and
/// AVX2 (oneDNN `src/cpu/x64/gemm/f32/jit_avx512_common_gemm_f32.cpp` and `jit_avx_gemm_f32.cpp`, `ORIG_SP`). In 135 of 135 stops of JAX with
/// AVX-512, and 6 of 6 of TensorFlow with AVX2, the return address lay six words above what was kept.
pub const ONEDNN: [u64; 2] = [120, 152];
/// The first of these, which others that push something else keep it at too.
pub const KEPT_AT: Option<u64> = Some(ONEDNN[0]);

/// Bytes that oneDNN's kernels push before that: `rbx`, `rbp` and `r12` to `r15` (`jit_generator.hpp`, `abi_save_gpr_regs`; older versions push
/// `rbx` first, newer ones `rbp`). The return address lies above them.
pub const ONEDNN_PUSHED: u64 = 48;
