//! Calls and what is around them, in words of code: which end before a return address, entries of linkage tables, how functions begin and end.
//!
//! Source: Arm ARM DDI 0487J, C4.1. Leaves out which return address is believed (`scan.rs`).

use super::frame::code_address;
use crate::memory::Memory;

/// Bits that an address of user space has at most (Documentation/arm64/memory.rst, v6.1: 52 where a program asks for them).
pub const USER_BITS: u32 = 52;
/// Instructions begin at multiples of so many bytes.
pub const INSTRUCTION: u64 = 4;
/// Words from the stack pointer, at a function's first instruction, to its first argument on the stack.
pub const ARGUMENTS_AT: usize = 0;

/// How far below a function's first stack pointer its return address is looked for, in words: frames of 512 bytes.
const FRAME_WORDS: u64 = 64;

/// Whether the call whose stack pointer was `at` and whose return address `returns_to` has not returned, where another function is called at
/// `sp`: what called that has saved the return address in its frame, below `at`. One whose frame is larger is taken to have returned.
#[inline(always)]
pub fn has_not_returned(at: u64, returns_to: &u64, sp: u64, word: impl Fn(u64) -> u64) -> bool {
    if sp >= at {
        return false;
    }
    for back in 1..=FRAME_WORDS {
        let saved_at = at.wrapping_sub(8 * back);
        if saved_at < sp {
            return false;
        }
        if code_address(word(saved_at)) == *returns_to {
            return true;
        }
    }
    false
}

/// Whether these eight bytes end in an indirect call, whose target is not known any more: `blr`, or one that checks a signature (`blraa` and so on).
#[inline(always)]
pub const fn is_indirect(bytes: u64) -> bool {
    (bytes >> 32) as u32 & 0xfeff_f000 == 0xd63f_0000
}

/// Where the direct call that ends these eight bytes, at `pc`, leads; `None` where they end in none (`bl`).
#[inline(always)]
pub const fn direct_target(bytes: u64, pc: u64) -> Option<u64> {
    let call = (bytes >> 32) as u32;
    if call & 0xfc00_0000 != 0x9400_0000 {
        return None;
    }
    Some(pc.wrapping_sub(INSTRUCTION).wrapping_add_signed(((call << 6) as i32 >> 4) as i64))
}

/// Where an entry of a procedure linkage table jumps: `adrp x16, page; ldr x17, [x16, #at]`, with or without `bti c` before it.
#[inline(always)]
pub fn behind_plt(entry: u64, memory: &impl Memory) -> Option<u64> {
    const BTI_C: u32 = 0xd503_245f;
    let mut at = entry;
    let mut code = memory.read_word(at)?;
    if code as u32 == BTI_C {
        at = at.wrapping_add(INSTRUCTION);
        code = memory.read_word(at)?;
    }
    let (adrp, ldr) = (code as u32, (code >> 32) as u32);
    if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let page = (at & !0xfff).wrapping_add_signed(adrp_pages(adrp) << 12);
    memory.read_word(page.wrapping_add(((ldr >> 10 & 0xfff) as u64) * 8))
}

/// How many pages of 4 KiB away `adrp` leads.
#[inline(always)]
pub const fn adrp_pages(adrp: u32) -> i64 {
    let high = (adrp << 8) as i32 >> 13;
    (high as i64) << 2 | (adrp >> 29 & 3) as i64
}

/// Whether a function that begins with these four instructions makes a frame pointer there: `stp x29, x30` somewhere on its stack, and behind it
/// `x29` is made to point there.
#[inline(always)]
pub const fn makes_frame_pointer(first: u64, second: u64) -> bool {
    let [one, two, three, four] = [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32];
    let points = [points_to_record(two), points_to_record(three), points_to_record(four)];
    saves_record(one) && (points[0] || points[1] || points[2])
        || saves_record(two) && (points[1] || points[2])
        || saves_record(three) && points[2]
}

/// `stp x29, x30, [sp, #…]`, with or without moving `sp` first.
const fn saves_record(code: u32) -> bool {
    code & 0xfe40_7fff == 0xa800_7bfd && matches!(code >> 23 & 3, 2 | 3)
}

/// `mov x29, sp`, or `add x29, sp, #…`.
const fn points_to_record(code: u32) -> bool {
    code & 0xffc0_03ff == 0x9100_03fd
}

/// Whether a goroutine's first frame returns here: to the second instruction of `runtime.goexit`, `mov x0, x0; bl` (Go's src/runtime/asm_arm64.s).
#[inline(always)]
pub fn is_goexit(pc: u64, before: u64, memory: &impl Memory) -> bool {
    before >> 32 == 0xaa00_03e0
        && memory.read_word(pc).is_some_and(|code| code as u32 & 0xfc00_0000 == 0x9400_0000)
}

/// What code that gives its frame back and returns at once does: bytes from the stack pointer to the return address, and whether the frame
/// pointer lies there first. `ldp x29, x30, [sp], #16`, and then `ret` or a check of the signature.
#[inline(always)]
pub const fn returns_at_once(code: u64) -> Option<(u64, bool)> {
    const RET: u64 = 0xd65f_03c0;
    const AUTIASP: u64 = 0xd503_23bf;
    const RETAA: u64 = 0xd65f_0bff;
    let ends = matches!(code >> 32, RET | AUTIASP | RETAA);
    if code as u32 == 0xa8c1_7bfd && ends { Some((8, true)) } else { None }
}

/// Whether this is an entry of a procedure linkage table that was interrupted, `pc` being in it and `begin` where the call before led: it has
/// called nothing, and its return address is where it was.
#[inline(always)]
pub fn is_in_plt(begin: u64, pc: u64, memory: &impl Memory) -> bool {
    const ENTRY_BYTES: u64 = 24;
    pc.wrapping_sub(begin) < ENTRY_BYTES && behind_plt(begin, memory).is_some()
}
