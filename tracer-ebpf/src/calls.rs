//! What the bytes before a return address say of the call: whether there is one, and where it led.
//!
//! Leaves out which return address is believed (`scan.rs`).

use crate::memory::Memory;
use crate::native::Tables;
use crate::rows::rule;
use crate::wire::end;

/// Bytes that a function without unwind information is taken to have at most: MKL's kernels take up to 7 KiB, and further above a target
/// lie other functions, whose return addresses are stale.
const LARGEST: u64 = 1 << 13;

/// Whether these eight bytes end in an indirect call: `ff /2` with its operand (Intel SDM vol. 2A, CALL), whose target is not known any more.
#[inline(always)]
pub(crate) const fn is_indirect(bytes: u64) -> bool {
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
pub(crate) const fn direct_target(bytes: u64, pc: u64) -> Option<u64> {
    if bytes >> 24 & 0xff != 0xe8 {
        return None;
    }
    Some(pc.wrapping_add_signed((bytes >> 32) as i32 as i64))
}

/// Where the function begins that a call of `target` led to, if `callee` may lie in it: a function without unwind information that begins a
/// little before.
#[inline(always)]
pub(crate) fn leads_to(
    target: u64,
    callee: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<u64> {
    let begin = behind_plt(target, memory).unwrap_or(target);
    let near = callee.wrapping_sub(begin) < LARGEST;
    let bare = near && has_rule(begin, tables) == Some(false);
    bare.then_some(begin)
}

/// Whether code at `pc` has unwind information; `None` where there is no code, or nobody knows yet.
#[inline(always)]
pub(crate) fn has_rule(pc: u64, tables: &mut impl Tables) -> Option<bool> {
    match tables.rule(pc) {
        Ok(rule) => Some(rule.kind() != rule::NONE),
        Err(end::NO_UNWIND_INFO) => Some(false),
        Err(_) => None,
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

/// Whether a function makes a frame pointer where it begins: `push %rbp; mov %rsp,%rbp` in its first sixteen bytes, behind `endbr64` or
/// Go's look at the stack's limit.
#[inline(always)]
pub(crate) fn makes_frame_pointer(begin: u64, memory: &impl Memory) -> bool {
    let Some([first, second]) = words_at(begin, memory) else { return false };
    // The four bytes at each place of the first eight, the last three of which reach into the second.
    is_frame_pointer(first)
        || is_frame_pointer(first >> 32 | second << 32)
        || is_frame_pointer(first >> 48 | second << 16)
        || is_frame_pointer(second)
        || is_frame_pointer(second >> 16)
        || is_frame_pointer(second >> 24)
        || is_frame_pointer(second >> 32)
}

#[inline(always)]
fn words_at(begin: u64, memory: &impl Memory) -> Option<[u64; 2]> {
    Some([memory.read_word(begin)?, memory.read_word(begin.wrapping_add(8))?])
}

/// `push %rbp; mov %rsp,%rbp` in either of its two encodings.
#[inline(always)]
const fn is_frame_pointer(bytes: u64) -> bool {
    matches!(bytes as u32, 0xe589_4855 | 0xec8b_4855)
}
