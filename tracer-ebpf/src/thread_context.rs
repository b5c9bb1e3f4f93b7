//! OpenTelemetry's thread context (OTEP 4947): where a thread has the record of the span that it works for, in one definition for both sides.
//!
//! The variable `otel_thread_ctx_v1` is each thread's own; it points to the record, or to nothing. Leaves out what a record means (user
//! space), and how the variable's place is found (`unwind`).

use crate::arch::thread;
use crate::memory::Memory;

/// Bytes of a record before its attributes: trace (16), span (8), whether it is valid, the trace's flags, bytes of the attributes (16 bits).
pub const HEAD_BYTES: usize = 28;
/// Bytes of a record that are taken, as the specification recommends.
pub const MOST_BYTES: usize = 640;
/// What says that a record is valid; no other number does.
pub const VALID: u8 = 1;

/// Where the variable lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadVariable {
    /// Bytes from the thread pointer, or from where the thread has the module's variables.
    pub offset: i64,
    /// The module, by the C library's number; 0: it lies at a fixed distance from the thread pointer.
    pub module: u64,
}

impl ThreadVariable {
    /// Where a thread's record lies; `None`: it has none.
    #[inline(always)]
    pub fn record(&self, thread_pointer: u64, memory: &impl Memory) -> Option<u64> {
        let base = if self.module == 0 { thread_pointer } else { self.block(thread_pointer, memory)? };
        memory.read_word(base.wrapping_add_signed(self.offset)).filter(|record| *record != 0)
    }

    /// Where a thread has the module's variables (glibc's `dtv_t`: a pointer and what is to be freed); `None`: it has not used any.
    #[inline(always)]
    fn block(&self, thread_pointer: u64, memory: &impl Memory) -> Option<u64> {
        let vector = memory.read_word(thread_pointer.wrapping_add(thread::VECTOR))?;
        let block = memory.read_word(vector.wrapping_add(self.module.wrapping_mul(16)))?;
        if block == 0 || block == u64::MAX { None } else { Some(block) }
    }
}

const _: () = assert!(size_of::<ThreadVariable>() == 16);

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)` integers without padding (the assert above): every bit pattern is a value.
    unsafe impl aya::Pod for super::ThreadVariable {}
}

#[cfg(test)]
mod tests {
    use super::{ThreadVariable, thread};
    use crate::memory::{FRAME_WORDS, Memory};

    struct Words(&'static [(u64, u64)]);

    impl Memory for Words {
        fn read_word(&self, address: u64) -> Option<u64> {
            self.0.iter().find(|(at, _)| *at == address).map(|&(_, word)| word)
        }

        fn read_frame(&self, _address: u64, _bytes: u32, _out: &mut [u64; FRAME_WORDS]) -> bool {
            false
        }
    }

    /// By a fixed distance, and by the thread's vector of modules; a thread without the module's variables, or without a record, has none.
    #[test]
    fn places() {
        const POINTER: u64 = 0x7000;
        let memory = Words(&[
            (POINTER - 16, 0x1234),
            (POINTER - 8, 0),
            (POINTER + thread::VECTOR, 0x9000),
            (0x9000 + 3 * 16, 0xa000),
            (0xa000 + 24, 0x5678),
            (0x9000 + 4 * 16, u64::MAX),
        ]);
        let record = |offset, module| ThreadVariable { offset, module }.record(POINTER, &memory);
        assert_eq!([record(-16, 0), record(24, 3)], [Some(0x1234), Some(0x5678)]);
        assert_eq!([record(-8, 0), record(-32, 0), record(24, 4), record(24, 5)], [None; 4]);
    }
}
