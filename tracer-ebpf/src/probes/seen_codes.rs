//! Code objects that a CPU's samples held before: user space need not be woken to read them.
//!
//! Being woken costs the target several microseconds, an interrupt that the CPU sends to itself. What is remembered wrongly (another
//! code object came to the same address) is read at user space's next look instead, ten milliseconds later at most.

use core::arch::asm;

/// Code objects that are kept: a power of two.
const SLOTS: usize = 1024;

/// The code objects that one CPU remembers.
#[repr(C)]
pub(crate) struct SeenCodes {
    slots: [u64; SLOTS],
    /// 1: the sample in the making holds one that was not remembered.
    fresh: u64,
}

impl SeenCodes {
    /// A sample begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.fresh = 0;
    }

    /// Whether the sample held a new one.
    #[inline(always)]
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh != 0
    }

    /// Remembers a code object of a process.
    #[inline(always)]
    pub(crate) fn add(&mut self, code: u64, pid: u32) {
        let key = code ^ u64::from(pid) << 44;
        // 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
        let mut at = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        // SAFETY: a mask; hidden from the compiler so that it stays where the verifier needs it.
        unsafe { asm!("{0} &= 1023", inout(reg) at) };
        // SAFETY: the mask keeps it below SLOTS.
        let slot = unsafe { &mut *self.slots.as_mut_ptr().add(at as usize) };
        if *slot != key {
            *slot = key;
            self.fresh = 1;
        }
    }
}
