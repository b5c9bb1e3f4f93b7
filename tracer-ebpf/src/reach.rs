//! Whether what a walk needs could be read at all: why a sample has no frames where its thread may have some.
//!
//! A sample by hardware cycles comes in an NMI, also where interrupts are off. There the kernel may just be entered, with the registers of
//! user mode not all saved, or be changing from one process's memory to another's: from then on until `current` is changed as well, reads of
//! user memory fail (`nmi_uaccess_okay`, arch/x86/mm/tlb.c, v6.1). A timer's interrupt never comes there. Leaves out the reading itself.

use crate::arch::kernel::is_entry_stack;
use crate::memory::Memory;
use crate::wire::{PythonLayout, end};

/// Stands for the next state in a list of threads that could not be read.
pub const UNREAD: u64 = 1;

/// Whether the kernel was interrupted with its stack pointer at `kernel_sp` (0: user mode was) before all registers of user mode lay in the
/// `bytes` from `saved` on: while they are pushed, the stack pointer is among them (as in `perf_get_regs_user`, arch/x86/kernel/perf_regs.c).
#[inline(always)]
pub fn are_being_saved(kernel_sp: u64, saved: u64, bytes: u64) -> bool {
    let among = kernel_sp.wrapping_sub(saved);
    kernel_sp != 0 && ((among != 0 && among <= bytes) || is_entry_stack(kernel_sp))
}

/// Why no state of a thread was found, `last` being where the search ended: the thread has none, or what would say so could not be read.
/// `top` gives its stack pointer in user mode, or why there is none.
#[inline(always)]
pub fn why_no_thread(
    layout: &PythonLayout,
    last: u64,
    top: impl FnOnce() -> Result<u64, u8>,
    memory: &impl Memory,
) -> u8 {
    if memory.read_word(layout.interpreter_at).is_some() {
        return if last == UNREAD { end::FAULT } else { end::NOTHING };
    }
    match top() {
        // Its stack is there, the interpreter's page is not.
        Ok(top) if memory.read_word(top).is_some() => end::FAULT,
        Ok(_) => end::UNREADABLE,
        // A thread that has given its memory back has nothing in it.
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::{UNREAD, are_being_saved, why_no_thread};
    use crate::memory::{FRAME_WORDS, Memory};
    use crate::wire::{PythonLayout, end};

    /// Memory of which some can be read.
    struct Upto(u64);

    impl Memory for Upto {
        fn read_word(&self, address: u64) -> Option<u64> {
            (address < self.0).then_some(0)
        }

        fn read_frame(&self, _address: u64, _bytes: u32, _out: &mut [u64; FRAME_WORDS]) -> bool {
            false
        }
    }

    /// A thread without a state is one only where the interpreter could be read to say so, or the thread has no memory any more.
    #[test]
    fn no_state_has_a_reason() {
        let layout = PythonLayout { interpreter_at: 4096, ..PythonLayout::default() };
        let why = |last, top, upto| why_no_thread(&layout, last, || top, &Upto(upto));
        assert_eq!(why(0, Ok(64), 8192), end::NOTHING);
        assert_eq!(why(UNREAD, Ok(64), 8192), end::FAULT);
        assert_eq!(why(0, Ok(64), 4096), end::FAULT);
        assert_eq!(why(0, Ok(9000), 4096), end::UNREADABLE);
        assert_eq!(why(0, Err(end::UNREADABLE), 4096), end::UNREADABLE);
        assert_eq!(why(0, Err(end::NOTHING), 4096), end::NOTHING);
    }

    /// Registers are whole once the kernel's stack goes on below them; not while the stack pointer is among them.
    #[test]
    fn registers_are_whole_below_them() {
        let (saved, bytes) = (0xffff_c900_0000_3f58, 168);
        for sp in [saved + 8, saved + bytes] {
            assert!(are_being_saved(sp, saved, bytes), "{sp:#x}");
        }
        for sp in [0, saved, saved - 800, saved + bytes + 8, 0xffff_c900_0012_0000] {
            assert!(!are_being_saved(sp, saved, bytes), "{sp:#x}");
        }
    }
}
