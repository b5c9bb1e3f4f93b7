//! The memory of the interrupted process, as the walkers read it.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};

/// Memory of `current`.
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
