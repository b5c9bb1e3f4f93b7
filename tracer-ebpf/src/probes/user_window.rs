//! A stretch of the interrupted process's memory that was copied at once.
//!
//! Leaves out which stretch (`tracer_ebpf::window`), and who reads in it (`user_memory.rs`).

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use core::arch::asm;
use tracer_ebpf::memory::FRAME_WORDS;
use tracer_ebpf::window::{Stretch, WINDOW};

const WINDOW_WORDS: usize = WINDOW as usize / 8;
const _: () = assert!(WINDOW.is_power_of_two(), "masks are made of it");
/// A stretch of the process's memory.
#[repr(C)]
pub(crate) struct Window {
    /// Address of the first byte.
    pub(super) base: u64,
    /// Bytes that were copied; 0: none.
    bytes: u64,
    /// The word that was asked for last and was not there.
    pub(super) asked: u64,
    /// The bytes, and room behind the mask for a whole Python frame.
    words: [u64; WINDOW_WORDS + FRAME_WORDS],
}

impl Window {
    /// Forgets what was copied: each walk of each sample begins so.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.base = 0;
        self.bytes = 0;
    }

    /// Copies a stretch. Says whether it could.
    #[inline(always)]
    pub(super) fn fill(&mut self, stretch: Stretch) -> bool {
        let Stretch { base, mut bytes } = stretch;
        // SAFETY: a mask that changes nothing, for the verifier; hidden from the compiler, which knows that.
        unsafe { asm!("{0} &= {1}", inout(reg) bytes, const 2 * WINDOW - 1) };
        if bytes > WINDOW {
            return false;
        }
        // SAFETY: the helper checks the user address and fails rather than faults; `words` has room for WINDOW bytes.
        let failed =
            unsafe { bpf_probe_read_user(self.words.as_mut_ptr().cast(), bytes as u32, base as *const _) };
        self.base = base;
        self.bytes = if failed == 0 { bytes } else { 0 };
        failed == 0
    }

    /// The copied words from `address` on, if `bytes` of them are there and it is aligned.
    #[inline(always)]
    pub(super) fn at(&self, address: u64, bytes: u64) -> Option<*const u64> {
        let at = address.wrapping_sub(self.base);
        if at >= self.bytes || at + bytes > self.bytes || at & 7 != 0 {
            return None;
        }
        let mut word = at >> 3;
        // SAFETY: a mask that changes nothing, for the verifier.
        unsafe { asm!("{0} &= {1}", inout(reg) word, const WINDOW_WORDS - 1) };
        // SAFETY: the mask keeps it below WINDOW_WORDS.
        Some(unsafe { self.words.as_ptr().add(word as usize) })
    }
}
