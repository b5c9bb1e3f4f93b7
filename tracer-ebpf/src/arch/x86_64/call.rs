//! Calls and what is around them, in bytes of code: which end before a return address, entries of linkage tables, how functions begin and end.
//!
//! Leaves out which return address is believed (`scan.rs`).

use crate::memory::Memory;

/// Bits that an address of user space has at most (Intel SDM vol. 1, 3.3.7.1: 57 with five levels of pages, the kernel's half above;
/// Documentation/arch/x86/x86_64/mm.rst).
pub const USER_BITS: u32 = 56;
/// Instructions begin at multiples of so many bytes.
pub const INSTRUCTION: u64 = 1;
/// Words from the stack pointer, at a function's first instruction, to its first argument on the stack: the return address.
pub const ARGUMENTS_AT: usize = 1;

/// Whether the call whose stack pointer was `at` and whose return address `returns_to` has not returned, where another function is called at
/// `sp`: the return address stands where it was, above this one's.
#[inline(always)]
pub fn has_not_returned(at: u64, returns_to: &u64, sp: u64, word: impl FnOnce(u64) -> u64) -> bool {
    sp < at && word(at) == *returns_to
}

/// Whether these eight bytes end in an indirect call: `ff /2` with its operand (Intel SDM vol. 2A, CALL), whose target is not known any more.
#[inline(always)]
pub const fn is_indirect(bytes: u64) -> bool {
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

/// Where the direct call that ends these eight bytes, at `pc`, leads; `None` where they end in none (`e8` with a distance).
#[inline(always)]
pub const fn direct_target(bytes: u64, pc: u64) -> Option<u64> {
    if bytes >> 24 & 0xff != 0xe8 {
        return None;
    }
    Some(pc.wrapping_add_signed((bytes >> 32) as i32 as i64))
}

/// Where an entry of a procedure linkage table jumps: `jmp *distance(%rip)`, with or without `endbr64` and `bnd` before it.
#[inline(always)]
pub fn behind_plt(entry: u64, memory: &impl Memory) -> Option<u64> {
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

/// Whether a function that begins with these two words makes a frame pointer there: `push %rbp; mov %rsp,%rbp`, behind `endbr64` or Go's look
/// at the stack's limit.
#[inline(always)]
pub const fn makes_frame_pointer(first: u64, second: u64) -> bool {
    // The four bytes at each place of the first eight, the last three of which reach into the second.
    makes_one(first)
        || makes_one(first >> 32 | second << 32)
        || makes_one(first >> 48 | second << 16)
        || makes_one(second)
        || makes_one(second >> 16)
        || makes_one(second >> 24)
        || makes_one(second >> 32)
}

/// `push %rbp; mov %rsp,%rbp` in either of its two encodings.
#[inline(always)]
const fn makes_one(bytes: u64) -> bool {
    matches!(bytes as u32, 0xe589_4855 | 0xec8b_4855)
}

/// Whether a goroutine's first frame returns here: to the second byte of `runtime.goexit`, `nop; call` (Go's src/runtime/asm_amd64.s).
#[inline(always)]
pub fn is_goexit(pc: u64, before: u64, memory: &impl Memory) -> bool {
    before >> 56 == 0x90 && memory.read_word(pc).is_some_and(|code| code & 0xff == 0xe8)
}

/// What code that gives its frame back and returns at once does: bytes from the stack pointer to the return address, and whether the frame
/// pointer lies there first. `add $N, %rsp; ret` or `pop %rbp; ret`.
#[inline(always)]
pub const fn returns_at_once(code: u64) -> Option<(u64, bool)> {
    if code & 0xffff == 0xc35d {
        Some((8, true))
    } else if code & 0xff_87ff_ffff == 0xc3_00c4_8348 {
        Some((code >> 24 & 0x78, false))
    } else {
        None
    }
}

/// Whether this is an entry of a procedure linkage table whose return address is in a register: there is no such register.
#[inline(always)]
pub const fn is_in_plt(_begin: u64, _pc: u64, _memory: &impl Memory) -> bool {
    false
}
