//! Finds the caller of code that OpenJDK's HotSpot made at run time, by what the virtual machine itself keeps of it.
//!
//! Compiled Java keeps no frame pointer, but each piece of code (`CodeBlob`) has one size of its frame, which HotSpot walks its own stacks by;
//! interpreted Java keeps a frame pointer, and beside it the caller's stack pointer. Sources: OpenJDK 17, `src/hotspot/share/code/codeBlob.hpp`,
//! `memory/heap.cpp` (`CodeHeap::find_block_for`), `cpu/x86/frame_x86.hpp`, `cpu/x86/x86.ad` (`MachPrologNode`, `MachEpilogNode`). Only what is
//! proved is said: elsewhere (adapters, the first instructions of interpreted methods and of stubs) the caller is left to a scan. Leaves
//! out where the layout comes from (user space reads what HotSpot exports), names, and virtual threads.

use crate::arch::call::direct_target;
use crate::arch::{Depth, hotspot as code};
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
/// Largest frame that is believed, and largest distance between a stack pointer and a frame pointer.
const NEAR: u64 = 1 << 16;

/// First bytes of the names of code blobs.
mod kind {
    pub(super) const INTERPRETER: u64 = u64::from_le_bytes(*b"Interpre");
    pub(super) const STUBS: u64 = u64::from_le_bytes(*b"StubRout");
    pub(super) const VTABLE: u64 = u64::from_le_bytes(*b"vtable c");
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

/// The frame that was left: the stack pointer behind it, and where the frame pointer was saved.
struct LeftFrame {
    cfa: u64,
    saved: Option<u64>,
}

/// The caller of code in one of the heaps.
///
/// # Errors
/// An `end` code: `NO_UNWIND_INFO` where nothing proves the caller.
#[inline(always)]
pub fn caller(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Result<NativeWalk, u8> {
    if !code::IS_KNOWN {
        return Err(end::NO_UNWIND_INFO);
    }
    find_caller(walk, layout, memory).ok_or(end::NO_UNWIND_INFO)
}

#[inline(always)]
fn find_caller(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    let blob = read_blob(find_blob(walk.at(), layout, memory)?, layout, memory)?;
    let left = match blob.name {
        _ if blob.frame != 0 => leave_compiled(walk, &blob, memory)?,
        kind::INTERPRETER => return leave_interpreted(walk, layout, memory),
        kind::STUBS => leave_stub(walk, &blob, layout, memory)?,
        kind::VTABLE if walk.returned == 0 => LeftFrame { cfa: walk.sp.wrapping_add(8), saved: None },
        _ => return None,
    };
    let pc = memory.read_word(left.cfa.wrapping_sub(8))?;
    let fp = match left.saved {
        Some(at) => memory.read_word(at)?,
        None => walk.fp,
    };
    arrive(pc, left.cfa, fp, layout, memory)
}

/// The caller, if that is what its return address says: code of a heap, or what follows a call.
#[inline(always)]
fn arrive(pc: u64, sp: u64, fp: u64, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    if !layout.holds(pc) && !is_behind_call(pc, memory) {
        return None;
    }
    Some(NativeWalk { pc, sp, fp, returned: 1, callee_saved_at: place::UNKNOWN, others_at: place::UNKNOWN })
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
fn leave_compiled(walk: &NativeWalk, blob: &Blob, memory: &impl Memory) -> Option<LeftFrame> {
    let cfa = walk.sp.wrapping_add(blob.frame);
    let whole = LeftFrame { cfa, saved: Some(cfa.wrapping_sub(16)) };
    if walk.returned != 0 {
        return Some(whole);
    }
    let depth = if walk.pc.wrapping_sub(blob.code).cast_signed() < blob.complete {
        code::depth_in_prologue(walk.pc, memory)?
    } else if blob.complete < 0 {
        return None;
    } else {
        code::depth_in_epilogue(walk.pc, memory)?
    };
    Some(match depth {
        Depth::Whole => whole,
        Depth::Unsaved => LeftFrame { cfa, saved: None },
        Depth::Pushed => LeftFrame { cfa: walk.sp.wrapping_add(16), saved: Some(walk.sp) },
        Depth::None => LeftFrame { cfa: walk.sp.wrapping_add(8), saved: None },
    })
}

/// Leaves an interpreted method: its frame keeps a frame pointer and, right below where that points, the caller's stack pointer.
#[inline(always)]
fn leave_interpreted(walk: &NativeWalk, layout: &HotspotLayout, memory: &impl Memory) -> Option<NativeWalk> {
    if walk.returned == 0 && !code::has_method_frame(walk.pc, &layout.bytecodes, memory)? {
        return None;
    }
    let frame = walk.fp;
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

/// Leaves a stub. That by which native code calls Java keeps a frame pointer; of others, which compiled code calls directly, the caller is
/// proved by its call: below a frame pointer's return address, or on top of the stack where there is no frame.
#[inline(always)]
fn leave_stub(
    walk: &NativeWalk,
    blob: &Blob,
    layout: &HotspotLayout,
    memory: &impl Memory,
) -> Option<LeftFrame> {
    let by_frame = LeftFrame { cfa: walk.fp.wrapping_add(16), saved: Some(walk.fp) };
    let has_frame = is_near(walk.sp, walk.fp);
    if walk.returned != 0 {
        return (walk.pc == layout.call_stub_return && has_frame).then_some(by_frame);
    }
    if calls_into(walk.sp, blob, memory) {
        return Some(LeftFrame { cfa: walk.sp.wrapping_add(8), saved: None });
    }
    (has_frame && calls_into(walk.fp.wrapping_add(8), blob, memory)).then_some(by_frame)
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
