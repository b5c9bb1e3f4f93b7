//! Finds the caller of code without unwind information: by a scan of the stack, and only where what is found proves itself.
//!
//! Leaves out where scans begin and what becomes of a gap (`probes/scan.rs` and `unwind/stack_copy.rs`).

use crate::memory::Memory;
use crate::native::{NativeWalk, Tables, caller};
use crate::rows::rule;
use crate::wire::{FIRST_PC, end};

/// Words above the stack pointer that are looked through for a return address where code has no unwind information.
pub const SCAN_WORDS: u32 = 64;

/// Bits that an address of user space has at most (Intel SDM vol. 1, 3.3.7.1: 57 with five levels of pages, the kernel's half above).
const USER_BITS: u32 = 56;

/// The caller of code without unwind information, if the word at `address` is its return address.
///
/// Kernels made at run time push registers and call nothing far away: the return address lies a few words above the stack pointer
/// (within 50 in all stops of oneDNN and MLAS that were looked at). It is believed when it follows a call
/// that may have led here, its code has unwind information, and two more steps succeed from there. The callee's first push is its caller's `rbp`, or
/// else the callee leaves `rbp` alone (oneDNN's barrier pushes `rax`).
#[inline(always)]
pub fn scan(
    walk: &NativeWalk,
    address: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let pc = memory.read_word(address)?;
    if pc < FIRST_PC || pc >> USER_BITS != 0 {
        return None; // Small numbers and floating-point ones: most of what lies on such a stack.
    }
    if tables.is_known_none(pc - 1) {
        return None;
    }
    tables.rule(pc - 1).ok().filter(|rule| rule.kind() != rule::NONE)?;
    if !follows_call(pc, walk.at(), tables, memory) {
        return None;
    }
    let found =
        NativeWalk { pc, sp: address.wrapping_add(8), bp: walk.bp, returned: 1, ..NativeWalk::default() };
    if address > walk.sp {
        let pushed = NativeWalk { bp: memory.read_word(address.wrapping_sub(8))?, ..found };
        if tables.goes_on(pushed, memory) {
            return Some(pushed);
        }
    }
    tables.goes_on(found, memory).then_some(found)
}

/// Whether two more steps succeed from there.
#[inline(always)]
pub(crate) fn goes_on(mut trial: NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    if caller(&mut trial, tables, memory).is_err() {
        return false;
    }
    matches!(caller(&mut trial, tables, memory), Ok(_) | Err(end::COMPLETE))
}

/// Where the stack was before code without unwind information moved `rsp` to a buffer of its own.
///
/// oneDNN's kernels for matrix products (also in XLA and TensorFlow) align `rsp` to a page of scratch memory, often not on the stack, and
/// keep the old value 120 bytes above it (oneDNN `src/cpu/x64/gemm/f32/jit_avx512_common_gemm_f32.cpp`, `ORIG_SP`); in 135 of 135 stops
/// of JAX the return address lay 6 words above that. Only a place to scan from: what is found there has to hold as anywhere.
#[inline(always)]
pub fn stack_put_away(walk: &NativeWalk, memory: &impl Memory) -> Option<u64> {
    const PAGE: u64 = 4096;
    const ORIGINAL_SP: u64 = 120;
    if !walk.sp.is_multiple_of(PAGE) {
        return None;
    }
    memory.read_word(walk.sp.wrapping_add(ORIGINAL_SP)).filter(|sp| sp % 8 == 0 && *sp >= FIRST_PC)
}

/// Where `rbp` points, if it may be a frame pointer of the innermost frame: above the stack pointer, near, and aligned as a push behind the
/// return address leaves it (System V ABI, x86-64, 3.2.2).
#[inline(always)]
fn frame_pointer(walk: &NativeWalk) -> Option<u64> {
    const NEAR: u64 = 1 << 16;
    (walk.bp > walk.sp && walk.bp - walk.sp < NEAR && walk.bp.is_multiple_of(16)).then_some(walk.bp)
}

/// The caller of code with a frame pointer, however large its frame: LLVM's kernels in XLA, parts of MKL. Code that leaves its caller's
/// frame pointer alone looks the same; then a frame is missing, and whoever asks has to say so. Any call will do: the word is where a
/// return address has to be.
#[inline(always)]
pub fn scan_frame_pointer(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let frame = frame_pointer(walk)?;
    let pc = memory.read_word(frame.wrapping_add(8)).filter(|&pc| pc >= FIRST_PC)?;
    tables.rule(pc - 1).ok().filter(|rule| rule.kind() != rule::NONE)?;
    memory.read_word(pc - 8).filter(|&bytes| is_direct(bytes) || is_indirect(bytes))?;
    let found = NativeWalk {
        pc,
        sp: frame.wrapping_add(16),
        bp: memory.read_word(frame)?,
        returned: 1,
        ..NativeWalk::default()
    };
    tables.goes_on(found, memory).then_some(found)
}

/// Whether the instruction before `pc` is a call that may have led to `callee`: `ff /2` with its operand, whose target is not known any
/// more, or `e8` with a distance (Intel SDM vol. 2A, CALL) that leads there. Return addresses of earlier calls lie about on the stack in
/// buffers that nothing has written yet; most are of direct calls to something else.
#[inline(always)]
fn follows_call(pc: u64, callee: u64, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    let Some(before) = memory.read_word(pc - 8) else { return false };
    if is_indirect(before) {
        return true;
    }
    is_direct(before)
        && leads_to(pc.wrapping_add_signed(i64::from((before >> 32) as i32)), callee, tables, memory)
}

/// Whether these eight bytes end in an indirect call.
#[inline(always)]
const fn is_indirect(bytes: u64) -> bool {
    indirect_at(bytes, 2)
        || indirect_at(bytes, 3)
        || indirect_at(bytes, 4)
        || indirect_at(bytes, 6)
        || indirect_at(bytes, 7)
}

/// Whether `ff /2` stands so many bytes before the end of these eight.
#[inline(always)]
const fn indirect_at(bytes: u64, back: u64) -> bool {
    bytes >> (8 * (8 - back)) & 0xff == 0xff && bytes >> (8 * (9 - back)) >> 3 & 7 == 2
}

/// Whether these eight bytes end in a direct call.
#[inline(always)]
const fn is_direct(bytes: u64) -> bool {
    bytes >> 24 & 0xff == 0xe8
}

/// Whether a call of `target` may have led to `callee`, which has no unwind information: then the function at `target` has none either
/// and begins a little before it: MKL's kernels take up to 7 KiB here, and further below lie others, whose return addresses are stale.
#[inline(always)]
fn leads_to(target: u64, callee: u64, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    const LARGEST: u64 = 1 << 13;
    let begin = behind_plt(target, memory).unwrap_or(target);
    let near = callee.wrapping_sub(begin) < LARGEST;
    near && match tables.rule(begin) {
        Ok(rule) => rule.kind() == rule::NONE,
        Err(code) => code == end::NO_UNWIND_INFO,
    }
}

/// Where an entry of a procedure linkage table jumps: `jmp *distance(%rip)`, with or without `endbr64` and `bnd` before it.
#[inline(always)]
fn behind_plt(entry: u64, memory: &impl Memory) -> Option<u64> {
    const ENDBR64: u32 = 0xfa1e_0ff3;
    let mut at = entry;
    let mut code = memory.read_word(at)?;
    if code as u32 == ENDBR64 {
        at += 4;
        code = memory.read_word(at)?;
    }
    if code & 0xff == 0xf2 {
        at += 1;
        code >>= 8;
    }
    if code & 0xffff != 0x25ff {
        return None;
    }
    memory.read_word(at.wrapping_add(6).wrapping_add_signed(i64::from((code >> 16) as i32)))
}
