//! Finds the caller of code that OpenJDK's HotSpot made at run time, by what the virtual machine itself keeps of it.
//!
//! Compiled Java keeps no frame pointer, but each piece of code (`CodeBlob`) has one size of its frame, which HotSpot walks its own stacks by;
//! interpreted Java keeps `rbp`, and beside it the caller's stack pointer. Sources: OpenJDK 17, `src/hotspot/share/code/codeBlob.hpp`,
//! `memory/heap.cpp` (`CodeHeap::find_block_for`), `cpu/x86/frame_x86.hpp`, `cpu/x86/x86.ad` (`MachPrologNode`, `MachEpilogNode`). Only what is
//! proved is said: elsewhere (adapters, the first instructions of interpreted methods and of stubs) the caller is left to a scan. Leaves
//! out where the layout comes from (user space reads what HotSpot exports), names, and virtual threads.

use crate::calls::direct_target;
use crate::hotspot_layout::{CodeHeap, HotspotLayout};
use crate::memory::Memory;
use crate::native::{NativeWalk, place};
use crate::scan::is_behind_call;
use crate::wire::{FIRST_PC, end};

/// Steps from a segment to the first one of its block: each is 254 segments at most, and code of more than 1 MiB is not compiled.
const MAX_HOPS: u32 = 40;
/// A segment of nobody (`free_sentinel`).
const FREE: u64 = 0xff;
/// Bytes of a block before its code blob (`HeapBlock`: its length, and whether it is used).
const BLOCK_HEAD: u64 = 16;
/// Words of code from `ENTERED` to where a method's entry touches the stack, at the most.
const ENTRY_WORDS: u64 = 10;
/// Largest frame that is believed, and largest distance between a stack pointer and a frame pointer.
const NEAR: u64 = 1 << 16;

/// First bytes of the names of code blobs.
mod kind {
    pub(super) const INTERPRETER: u64 = u64::from_le_bytes(*b"Interpre");
    pub(super) const STUBS: u64 = u64::from_le_bytes(*b"StubRout");
    pub(super) const VTABLE: u64 = u64::from_le_bytes(*b"vtable c");
}

/// Instructions where a compiled method's frame is made and left.
mod code {
    /// `push %rbp`.
    pub(super) const PUSH_RBP: u64 = 0x55;
    /// `pop %rbp`.
    pub(super) const POP_RBP: u64 = 0x5d;
    /// `ret`.
    pub(super) const RET: u64 = 0xc3;
    /// `leave`.
    pub(super) const LEAVE: u64 = 0xc9;
    /// `push %rbp; mov %rsp, %rbp` (`-XX:+PreserveFramePointer`, native methods).
    pub(super) const MADE_RBP: u64 = 0xec8b_4855;
    /// `sub $…, %rsp`, by a byte or four.
    pub(super) const SUB_RSP: [u64; 2] = [0xec_8348, 0xec_8148];
    /// `mov %rbp, …(%rsp)`, by a byte or four.
    pub(super) const SAVE_RBP: [u64; 2] = [0x246c_8948, 0x24ac_8948];
    /// `mov %eax, …(%rsp)`: whether the stack has room.
    pub(super) const TOUCH: u64 = 0x24_8489;
    /// `movb $…, …(%r15)`: a flag of the thread, which a method's entry clears behind that (`do_not_unlock_if_synchronized`).
    pub(super) const MARK: u64 = 0x87_c641;
    /// `cmpl $…, …(%r15)`, and `jne`: whether the method may be entered.
    pub(super) const BARRIER: u64 = 0x7f_8141;
    pub(super) const JNE: u64 = 0x850f;
    /// `cmp …(%r15), %rsp`, and `ja` behind it: whether the thread is to stop at this return.
    pub(super) const POLL: u64 = 0xa7_3b49;
    pub(super) const JA: u64 = 0x870f;
    /// `push %rbp; mov %rsp, %rbp; push %r13`: an interpreted method is entered, and its caller's stack pointer is kept.
    pub(super) const ENTERED: u64 = 0x5541_ec8b_4855;
    /// `movabs $…, %r10`: where bytecodes' code is listed, before the jump to the next one's.
    pub(super) const MOVABS_R10: u64 = 0xba49;
}

/// A piece of code.
struct Blob {
    /// Where its code begins, and the first address behind the blob.
    code: u64,
    end: u64,
    /// Bytes of its frame with the return address; 0: it has none of a fixed size.
    frame: u64,
    /// Bytes of its code after which the frame is complete; negative: nobody knows.
    complete: i64,
    /// First bytes of its name.
    name: u64,
}

/// The frame that was left: the stack pointer behind it, and where `rbp` was saved.
struct Left {
    cfa: u64,
    saved: Option<u64>,
}

/// The caller of code in one of the heaps.
///
/// # Errors
/// An `end` code: `NO_UNWIND_INFO` where nothing proves the caller.
#[inline(always)]
pub fn caller(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Result<NativeWalk, u8> {
    find_caller(walk, layout, memory).ok_or(end::NO_UNWIND_INFO)
}

#[inline(always)]
fn find_caller(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    let blob = read_blob(find_blob(walk.at(), layout, memory)?, layout, memory)?;
    let left = match blob.name {
        _ if blob.frame != 0 => leave_compiled(walk, &blob, memory)?,
        kind::INTERPRETER => return leave_interpreted(walk, layout, memory),
        kind::STUBS => leave_stub(walk, &blob, layout, memory)?,
        kind::VTABLE if walk.returned == 0 => Left { cfa: walk.sp.wrapping_add(8), saved: None },
        _ => return None,
    };
    let pc = memory.read_word(left.cfa.wrapping_sub(8))?;
    let bp = match left.saved {
        Some(at) => memory.read_word(at)?,
        None => walk.bp,
    };
    arrive(pc, left.cfa, bp, layout, memory)
}

/// The caller, if that is what its return address says: code of a heap, or what follows a call.
#[inline(always)]
fn arrive(pc: u64, sp: u64, bp: u64, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    if !layout.holds(pc) && !is_behind_call(pc, memory) {
        return None;
    }
    Some(NativeWalk { pc, sp, bp, returned: 1, bx_at: place::UNKNOWN, others_at: place::UNKNOWN })
}

/// The blob that an address belongs to.
#[inline(always)]
fn find_blob(pc: u64, layout: &HotspotLayout, memory: &impl Memory) -> Option<u64> {
    let mut heap = CodeHeap::default();
    for each in &layout.heaps {
        if each.start <= pc && pc < each.end {
            heap = *each;
        }
    }
    if heap.start == 0 {
        return None;
    }
    let shift = layout.segment_shift & 31;
    let mut segment = pc.wrapping_sub(heap.start) >> shift;
    for _ in 0..MAX_HOPS {
        match byte_at(heap.segments.wrapping_add(segment), memory)? {
            0 => return Some(heap.start.wrapping_add(segment << shift).wrapping_add(BLOCK_HEAD)),
            FREE => return None,
            back => segment = segment.wrapping_sub(back),
        }
    }
    None
}

/// A byte, by the word that holds it: the next one may lie on a page that is not there.
#[inline(always)]
fn byte_at(address: u64, memory: &impl Memory) -> Option<u64> {
    Some(memory.read_word(address & !7)? >> ((address & 7) * 8) & 0xff)
}

#[inline(always)]
fn read_blob(at: u64, layout: &HotspotLayout, memory: &impl Memory) -> Option<Blob> {
    let field = |offset: u32| memory.read_word(at.wrapping_add(u64::from(offset)));
    let bytes = field(layout.size)? & 0xffff_ffff;
    let frame = (field(layout.frame_size)? as u32).cast_signed();
    let complete = field(layout.frame_complete)?;
    let complete = match layout.frame_complete_bits {
        16 => i64::from((complete as u16).cast_signed()),
        _ => i64::from((complete as u32).cast_signed()),
    };
    let code = field(layout.code)?;
    let code = if layout.code_is_distance == 1 { at.wrapping_add(code & 0xffff_ffff) } else { code };
    let name = memory.read_word(field(layout.name)?)?;
    let frame = if frame > 0 && u64::from(frame.cast_unsigned()) < NEAR / 8 {
        u64::from(frame.cast_unsigned()) * 8
    } else {
        0
    };
    Some(Blob { code, end: at.wrapping_add(bytes), frame, complete, name })
}

/// Leaves a frame of a fixed size. Behind a call it is complete; where code was interrupted, its instructions say how much of it is there.
#[inline(always)]
fn leave_compiled(walk: &NativeWalk, blob: &Blob, memory: &impl Memory) -> Option<Left> {
    let cfa = walk.sp.wrapping_add(blob.frame);
    let whole = Left { cfa, saved: Some(cfa.wrapping_sub(16)) };
    if walk.returned != 0 {
        return Some(whole);
    }
    let depth = if walk.pc.wrapping_sub(blob.code).cast_signed() < blob.complete {
        depth_in_prologue(walk.pc, memory)?
    } else if blob.complete < 0 {
        return None;
    } else {
        depth_in_epilogue(walk.pc, memory)?
    };
    Some(match depth {
        Depth::Whole => whole,
        Depth::Unsaved => Left { cfa, saved: None },
        Depth::Pushed => Left { cfa: walk.sp.wrapping_add(16), saved: Some(walk.sp) },
        Depth::None => Left { cfa: walk.sp.wrapping_add(8), saved: None },
    })
}

/// How much of a frame is there.
enum Depth {
    /// The return address.
    None,
    /// And the caller's `rbp`.
    Pushed,
    /// All of it, but `rbp` is not saved yet.
    Unsaved,
    /// All of it.
    Whole,
}

#[inline(always)]
fn depth_in_prologue(pc: u64, memory: &impl Memory) -> Option<Depth> {
    let next = memory.read_word(pc)?;
    let before = memory.read_word(pc.wrapping_sub(8))?;
    let is_pushed = before >> 56 == code::PUSH_RBP || before >> 32 == code::MADE_RBP;
    let [three, four] = [next & 0xff_ffff, next & 0xffff_ffff];
    if next & 0xff == code::PUSH_RBP || three == code::TOUCH {
        return Some(Depth::None);
    }
    if three == code::SUB_RSP[0] || three == code::SUB_RSP[1] || three == code::MADE_RBP >> 8 {
        return Some(if is_pushed { Depth::Pushed } else { Depth::None });
    }
    // `mov %rbp, …(%rsp)` is REX.W and three bytes: the fourth of the word is the last of them.
    if four == code::SAVE_RBP[0] || four == code::SAVE_RBP[1] {
        return Some(Depth::Unsaved);
    }
    (three == code::BARRIER || next & 0xffff == code::JNE).then_some(Depth::Whole)
}

#[inline(always)]
fn depth_in_epilogue(pc: u64, memory: &impl Memory) -> Option<Depth> {
    let next = memory.read_word(pc)?;
    let polls = || Some(memory.read_word(pc.wrapping_sub(7))? & 0xff_ffff == code::POLL);
    let is_last =
        next & 0xff == code::RET || next & 0xff_ffff == code::POLL || next & 0xffff == code::JA && polls()?;
    Some(match next & 0xff {
        code::POP_RBP => Depth::Pushed,
        _ if is_last => Depth::None,
        _ => Depth::Whole,
    })
}

/// Leaves an interpreted method: its frame keeps `rbp` and, right below where that points, the caller's stack pointer.
#[inline(always)]
fn leave_interpreted(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    if walk.returned == 0 && !has_method_frame(walk.pc, layout, memory)? {
        return None;
    }
    let frame = walk.bp;
    if !is_near(walk.sp, frame) {
        return None;
    }
    let sp = memory.read_word(frame.wrapping_sub(8))?;
    if !is_near(frame.wrapping_add(16), sp) {
        return None;
    }
    let pc = memory.read_word(frame.wrapping_add(8))?;
    arrive(pc, sp, memory.read_word(frame)?, layout, memory)
}

/// Whether an interpreted method's frame is there where its code was interrupted: within a bytecode, unless `leave` is just behind; and within
/// a method's entry from where it has kept its caller's stack pointer, where it touches the pages that the stack may need, and right behind that.
#[inline(always)]
fn has_method_frame(pc: u64, layout: &HotspotLayout, memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(pc.wrapping_sub(8))?;
    let [start, end] = layout.bytecodes;
    if start <= pc && pc < end {
        // An address may have any byte.
        let is_address = || Some(memory.read_word(pc.wrapping_sub(10))? & 0xffff == code::MOVABS_R10);
        return Some(!has_byte(before, code::LEAVE) || is_address()?);
    }
    let touches = |at: u64| Some(memory.read_word(at)? & 0xff_ffff == code::TOUCH);
    let is_behind = if before & 0xff_ffff == code::MARK { 15 } else { 7 };
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
            found |= (bytes & (u64::MAX >> 16) ^ code::ENTERED).wrapping_sub(1);
        }
        behind = word;
    }
    Some(found >> 63 != 0)
}

/// Leaves a stub. That by which native code calls Java keeps a frame pointer; of others, which compiled code calls directly, the caller is
/// proved by its call: below a frame pointer's return address, or on top of the stack where there is no frame.
#[inline(always)]
fn leave_stub(walk: &NativeWalk, blob: &Blob, layout: &HotspotLayout, memory: &impl Memory) -> Option<Left> {
    let by_frame = Left { cfa: walk.bp.wrapping_add(16), saved: Some(walk.bp) };
    let has_frame = is_near(walk.sp, walk.bp);
    if walk.returned != 0 {
        return (walk.pc == layout.call_stub_return && has_frame).then_some(by_frame);
    }
    if calls_into(walk.sp, blob, memory) {
        return Some(Left { cfa: walk.sp.wrapping_add(8), saved: None });
    }
    (has_frame && calls_into(walk.bp.wrapping_add(8), blob, memory)).then_some(by_frame)
}

/// Whether the word there is the return address of a direct call into this code.
#[inline(always)]
fn calls_into(at: u64, blob: &Blob, memory: &impl Memory) -> bool {
    let target = || {
        let pc = memory.read_word(at).filter(|&pc| pc >= FIRST_PC)?;
        direct_target(memory.read_word(pc.wrapping_sub(8))?, pc)
    };
    target().is_some_and(|target| blob.code <= target && target < blob.end)
}

/// Whether an address is `from` or above it, near, and aligned.
#[inline(always)]
fn is_near(from: u64, address: u64) -> bool {
    address >= from && address.wrapping_sub(from) < NEAR && address & 7 == 0
}

/// Whether one of eight bytes is this one.
#[inline(always)]
const fn has_byte(bytes: u64, byte: u64) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let differ = bytes ^ (byte * EACH);
    differ.wrapping_sub(EACH) & !differ & (EACH << 7) != 0
}
