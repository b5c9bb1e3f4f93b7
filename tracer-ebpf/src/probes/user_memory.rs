//! The memory of the interrupted process, as the walkers read it.
//!
//! A read costs far more by its call than by its bytes: where the next reads are likely to be close, a stretch of memory is copied at
//! once (`window.rs`). The thread is interrupted, so that the copy stays true for the length of a sample.

use super::sample::scratch;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use core::arch::asm;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::window::{self, Stretch, WINDOW};

const WINDOW_WORDS: usize = WINDOW as usize / 8;
const _: () = assert!(WINDOW.is_power_of_two(), "masks are made of it");
/// How far above the stack pointer memory is taken for this stack.
const STACK_REACH: u64 = 1 << 26;

/// A stretch of the process's memory.
#[repr(C)]
pub(crate) struct Window {
    /// Address of the first byte.
    base: u64,
    /// Bytes that were copied; 0: none.
    bytes: u64,
    /// The word that was asked for last and was not there.
    asked: u64,
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
    fn fill(&mut self, stretch: Stretch) -> bool {
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
    fn at(&self, address: u64, bytes: u64) -> Option<*const u64> {
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

/// Memory of `current`, each read by itself.
pub(crate) struct UserMemory;

impl Memory for UserMemory {
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<u64> {
        let mut word = 0u64;
        // SAFETY: the helper checks the user address and fails rather than faults; `word` has room for 8 bytes.
        let failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
        if failed == 0 { Some(word) } else { None }
    }

    #[inline(always)]
    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        let bytes = bytes & 127;
        // SAFETY: as above; `out` has room for 128 bytes.
        unsafe { bpf_probe_read_user(out.as_mut_ptr().cast(), bytes, address as *const _) == 0 }
    }
}

/// Memory of `current` for the native walk: it goes up the stack.
pub(crate) struct StackMemory {
    /// The window of this CPU: valid for as long as the program runs.
    pub(crate) window: *const Window,
}

impl Memory for StackMemory {
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<u64> {
        // SAFETY: the scratch of this CPU, which one program at a time uses; no reference outlives the statement.
        if let Some(word) = unsafe { (*self.window).at(address, 8) } {
            // SAFETY: `at` gives a place in the window.
            return Some(unsafe { *word });
        }
        if stack_word(address) != 0 {
            return None;
        }
        // SAFETY: as above; volatile, for the function wrote it behind the back of any reference.
        Some(unsafe { core::ptr::read_volatile(&raw const (*self.window).asked) })
    }

    #[inline(always)]
    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        UserMemory.read_frame(address, bytes, out)
    }
}

/// Reads a word that the window does not hold into `Window::asked`, with what lies above it where it is of the stack; 0 where it could.
///
/// A function of its own, because walkers read in many places: what a sample costs after other work is mostly that its code has left the
/// caches.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn stack_word(address: u64) -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    let word = if address & 7 != 0 || address.wrapping_sub(scratch.walk.lowest) > STACK_REACH {
        UserMemory.read_word(address)
    } else if scratch.window.fill(window::up_from(address)) {
        // SAFETY: `at` gives a place in the window.
        scratch.window.at(address, 8).map(|word| unsafe { *word })
    } else {
        None
    };
    let Some(word) = word else { return 1 };
    scratch.window.asked = word;
    0
}

/// Memory of `current` for the Python walk. From 3.11 on frames lie one above the other, the caller's below; where the last frame was
/// close to this one, its callers are copied along with it.
pub(crate) struct FrameMemory {
    /// The window of this CPU: valid for as long as the program runs.
    pub(crate) window: *mut Window,
}

impl Memory for FrameMemory {
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<u64> {
        UserMemory.read_word(address)
    }

    #[inline(always)]
    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        // SAFETY: the scratch of this CPU, which one program at a time uses.
        let window = unsafe { &mut *self.window };
        let bytes = u64::from(bytes & 127);
        if window.at(address, bytes).is_none() {
            let close = window::is_close(window.base, address);
            if !window.fill(window::down_from(address, bytes, close)) {
                return false;
            }
        }
        let Some(words) = window.at(address, bytes) else { return false };
        for (place, word) in out.iter_mut().enumerate() {
            // SAFETY: behind the window's last word there is room for a whole frame.
            *word = unsafe { *words.add(place) };
        }
        true
    }
}
