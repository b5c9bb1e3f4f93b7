//! The memory of the interrupted process, as the walkers read it.
//!
//! A read costs far more by its call than by its bytes: where the next reads are likely to be close, a stretch of memory is copied at
//! once (`window.rs`). The thread is interrupted, so that the copy stays true for the length of a sample.

use super::scratch::scratch;
use super::user_window::Window;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::window;

/// How far above the stack pointer memory is taken for this stack.
const STACK_REACH: u64 = 1 << 26;

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
