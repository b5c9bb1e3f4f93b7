//! Where OpenJDK's HotSpot keeps what the probes read, in one process; `repr(C)` without padding, written by user space.
//!
//! Leaves out how callers are found with it (`hotspot.rs`).

/// Heaps of code: JDK 9 and later have three, before there was one.
pub const MAX_HEAPS: usize = 4;

/// A heap of code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeHeap {
    /// First address; 0: there is no such heap.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Where its map lies: a byte for each segment, how many segments further down its block begins.
    pub segments: u64,
}

/// Where a HotSpot keeps what is needed. Offsets are in a `CodeBlob`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotspotLayout {
    /// Its heaps.
    pub heaps: [CodeHeap; MAX_HEAPS],
    /// Where the interpreter's code for bytecodes begins and ends: there a method's frame is complete.
    pub bytecodes: [u64; 2],
    /// Where Java returns to the stub by which native code has called it.
    pub call_stub_return: u64,
    /// Bits of an address within a segment.
    pub segment_shift: u32,
    /// `_name`: text.
    pub name: u32,
    /// `_size`: bytes, 32 bits.
    pub size: u32,
    /// `_frame_size`: words, 32 bits.
    pub frame_size: u32,
    /// `_frame_complete_offset`, and the bits it has.
    pub frame_complete: u32,
    /// See `frame_complete`.
    pub frame_complete_bits: u32,
    /// Where its code begins: an address, or (from JDK 23 on) bytes from the blob on.
    pub code: u32,
    /// 1: bytes from the blob on.
    pub code_is_distance: u32,
}

impl HotspotLayout {
    /// Whether an address is code that a HotSpot made.
    #[inline(always)]
    pub fn holds(&self, pc: u64) -> bool {
        let mut found = false;
        for heap in &self.heaps {
            found |= heap.start <= pc && pc < heap.end;
        }
        found
    }
}

const _: () = assert!(size_of::<HotspotLayout>() == 24 * MAX_HEAPS + 24 + 32);

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)` integers without padding (the assert above): every bit pattern is a value.
    unsafe impl aya::Pod for super::HotspotLayout {}
}
