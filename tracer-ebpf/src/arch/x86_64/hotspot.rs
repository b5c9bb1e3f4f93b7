//! Instructions where a compiled or interpreted Java method makes and leaves its frame, as HotSpot 17 makes them (`cpu/x86/x86.ad`,
//! `MachPrologNode`, `MachEpilogNode`).
//!
//! Leaves out where the code is, and what else a virtual machine says of it (`hotspot.rs`).

use crate::arch::Depth;
use crate::memory::Memory;

/// Whether its frames are known.
pub const IS_KNOWN: bool = true;

/// Words of code from `ENTERED` to where a method's entry touches the stack, at the most.
const ENTRY_WORDS: u64 = 10;
/// `push %rbp`.
const PUSH_RBP: u64 = 0x55;
/// `pop %rbp`.
const POP_RBP: u64 = 0x5d;
/// `ret`.
const RET: u64 = 0xc3;
/// `leave`.
const LEAVE: u64 = 0xc9;
/// `push %rbp; mov %rsp, %rbp` (`-XX:+PreserveFramePointer`, native methods).
const MADE_RBP: u64 = 0xec8b_4855;
/// `sub $…, %rsp`, by a byte or four.
const SUB_RSP: [u64; 2] = [0xec_8348, 0xec_8148];
/// `mov %rbp, …(%rsp)`, by a byte or four.
const SAVE_RBP: [u64; 2] = [0x246c_8948, 0x24ac_8948];
/// `mov %eax, …(%rsp)`: whether the stack has room.
const TOUCH: u64 = 0x24_8489;
/// `movb $…, …(%r15)`: a flag of the thread, which a method's entry clears behind that (`do_not_unlock_if_synchronized`).
const MARK: u64 = 0x87_c641;
/// `cmpl $…, …(%r15)`, and `jne`: whether the method may be entered.
const BARRIER: u64 = 0x7f_8141;
const JNE: u64 = 0x850f;
/// `cmp …(%r15), %rsp`, and `ja` behind it: whether the thread is to stop at this return.
const POLL: u64 = 0xa7_3b49;
const JA: u64 = 0x870f;
/// `push %rbp; mov %rsp, %rbp; push %r13`: an interpreted method is entered, and its caller's stack pointer is kept.
const ENTERED: u64 = 0x5541_ec8b_4855;
/// `movabs $…, %r10`: where bytecodes' code is listed, before the jump to the next one's.
const MOVABS_R10: u64 = 0xba49;

/// How much of a compiled method's frame is there among its first instructions; `None` where they are unknown ones.
#[inline(always)]
pub fn depth_in_prologue(pc: u64, memory: &impl Memory) -> Option<Depth> {
    let next = memory.read_word(pc)?;
    let before = memory.read_word(pc.wrapping_sub(8))?;
    let is_pushed = before >> 56 == PUSH_RBP || before >> 32 == MADE_RBP;
    let [three, four] = [next & 0xff_ffff, next & 0xffff_ffff];
    if next & 0xff == PUSH_RBP || three == TOUCH {
        return Some(Depth::None);
    }
    if three == SUB_RSP[0] || three == SUB_RSP[1] || three == MADE_RBP >> 8 {
        return Some(if is_pushed { Depth::Pushed } else { Depth::None });
    }
    // `mov %rbp, …(%rsp)` is REX.W and three bytes: the fourth of the word is the last of them.
    if four == SAVE_RBP[0] || four == SAVE_RBP[1] {
        return Some(Depth::Unsaved);
    }
    (three == BARRIER || next & 0xffff == JNE).then_some(Depth::Whole)
}

/// The same behind them.
#[inline(always)]
pub fn depth_in_epilogue(pc: u64, memory: &impl Memory) -> Option<Depth> {
    let next = memory.read_word(pc)?;
    let polls = || Some(memory.read_word(pc.wrapping_sub(7))? & 0xff_ffff == POLL);
    let is_last = next & 0xff == RET || next & 0xff_ffff == POLL || next & 0xffff == JA && polls()?;
    Some(match next & 0xff {
        POP_RBP => Depth::Pushed,
        _ if is_last => Depth::None,
        _ => Depth::Whole,
    })
}

/// Whether an interpreted method's frame is there where its code was interrupted: within a bytecode, unless `leave` is just behind; and within
/// a method's entry from where it has kept its caller's stack pointer, where it touches the pages that the stack may need, and right behind that.
#[inline(always)]
pub fn has_method_frame(pc: u64, bytecodes: &[u64; 2], memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(pc.wrapping_sub(8))?;
    let [start, end] = *bytecodes;
    if start <= pc && pc < end {
        // An address may have any byte.
        let is_address = || Some(memory.read_word(pc.wrapping_sub(10))? & 0xffff == MOVABS_R10);
        return Some(!has_byte(before, LEAVE) || is_address()?);
    }
    let touches = |at: u64| Some(memory.read_word(at)? & 0xff_ffff == TOUCH);
    let is_behind = if before & 0xff_ffff == MARK { 15 } else { 7 };
    Some(touches(pc)? || touches(pc.wrapping_sub(is_behind))? || has_entered(pc, memory)?)
}

/// Whether `ENTERED` stands at most `ENTRY_WORDS` words before. The code behind it has no branch until the bytecodes, and is longer than that. There is no
/// branch for each byte here, as the verifier would follow both ways of each: `x - 1` has its highest bit set only where `x`, of 48 bits, is 0.
#[inline(always)]
fn has_entered(pc: u64, memory: &impl Memory) -> Option<bool> {
    let (mut found, mut behind) = (0, 0);
    for back in 1..=ENTRY_WORDS {
        let word = memory.read_word(pc.wrapping_sub(8 * back))?;
        for byte in 0..8 {
            let bytes = if byte == 0 { word } else { word >> (8 * byte) | behind << (64 - 8 * byte) };
            found |= (bytes & (u64::MAX >> 16) ^ ENTERED).wrapping_sub(1);
        }
        behind = word;
    }
    Some(found >> 63 != 0)
}

/// Whether one of eight bytes is this one.
#[inline(always)]
const fn has_byte(bytes: u64, byte: u64) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let differ = bytes ^ (byte * EACH);
    differ.wrapping_sub(EACH) & !differ & (EACH << 7) != 0
}
