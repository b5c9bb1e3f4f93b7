//! Where the call before a return address led, and whether what it led to makes a frame pointer.
//!
//! Leaves out which bytes are a call (`arch`), and which return address is believed (`scan.rs`).

use crate::arch::call;
use crate::memory::Memory;
use crate::native::Tables;
use crate::rows::rule;
use crate::wire::end;

/// Bytes that a function without unwind information is taken to have at most: MKL's kernels take up to 7 KiB, and further above a target
/// lie other functions, whose return addresses are stale.
const LARGEST: u64 = 1 << 13;

/// Where the function begins that a call of `target` led to, if `callee` may lie in it: a function without unwind information that begins a
/// little before.
#[inline(always)]
pub(crate) fn leads_to(
    target: u64,
    callee: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<u64> {
    let begin = call::behind_plt(target, memory).unwrap_or(target);
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

/// Whether a function makes a frame pointer where it begins, in its first sixteen bytes.
#[inline(always)]
pub(crate) fn makes_frame_pointer(begin: u64, memory: &impl Memory) -> bool {
    words_at(begin, memory).is_some_and(|[first, second]| call::makes_frame_pointer(first, second))
}

#[inline(always)]
fn words_at(begin: u64, memory: &impl Memory) -> Option<[u64; 2]> {
    Some([memory.read_word(begin)?, memory.read_word(begin.wrapping_add(8))?])
}
