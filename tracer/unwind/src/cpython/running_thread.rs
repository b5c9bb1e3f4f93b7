//! Which thread-local variables of an interpreter name the state that runs in a thread.
//!
//! From 3.15 on nothing else does (`_Py_tss_tstate`, `_Py_tss_gilstate`, Python/pystate.c), and stripped builds have no symbol of them.
//! They are found by what they hold: a program's own thread-local block lies right beside the thread pointer, which thread states hold as
//! `thread_id`, and the words of it that are the address of that thread's state are looked for. The probes believe what they read there
//! only when it has the thread pointer in turn. Leaves out interpreters in a library, whose block may lie anywhere.

use super::layout::VersionLayout;
use super::memory::Source;
use tracer_ebpf::arch::thread;

/// Largest block that is searched, in bytes: 3.15 has 48.
const LARGEST: u64 = 4096;

/// Up to two places below the thread pointer, in bytes; zeros where none was found (yet: the main thread's state is made late).
pub fn find_thread_variables(
    source: &impl Source,
    layout: &VersionLayout,
    runtime: u64,
    block: u64,
) -> [u32; 2] {
    search(source, layout, runtime, block).unwrap_or_default()
}

fn search(source: &impl Source, layout: &VersionLayout, runtime: u64, block: u64) -> Option<[u32; 2]> {
    let walk = layout.walker(runtime);
    let interpreter = source.word(walk.interpreter_at).filter(|&at| at != 0)?;
    let thread = source.word(interpreter.wrapping_add(u64::from(walk.threads_head))).filter(|&at| at != 0)?;
    let pointer = source.word(thread.wrapping_add(u64::from(walk.thread_id))).filter(|&at| at != 0)?;
    let places = walk.tsd_block;
    let bytes = source.bytes(thread::block(pointer, places, block), block & !7, LARGEST)?;
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let below = (0..).step_by(8).map(|at| thread::distance(places, block, at));
    let mut found = below.zip(words).filter(|&(_, word)| word == thread);
    let mut next = || found.next().map_or(Some(0), |(below, _)| u32::try_from(below).ok());
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::{find_thread_variables, thread};
    use crate::cpython::layout::KNOWN;
    use crate::cpython::memory::Source;

    struct Words(Vec<(u64, u64)>);

    impl Source for Words {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            for (at, out) in (address..).step_by(8).zip(out.chunks_exact_mut(8)) {
                let word = self.0.iter().find(|(a, _)| *a == at)?.1;
                out.copy_from_slice(&word.to_ne_bytes());
            }
            Some(())
        }
    }

    /// The words of the block that hold the thread's state are found; without a thread, or where the block cannot be read, none.
    #[test]
    fn variables_are_found_by_what_they_hold() {
        let layout = KNOWN[6]; // 3.12: its offsets serve as well as any.
        let walk = layout.walker(0x1000);
        let (interpreter, state, pointer) = (0x2000, 0x3000, 0x9000);
        let block = thread::block(pointer, walk.tsd_block, 32);
        let away = [8, 24].map(|at| thread::distance(walk.tsd_block, 32, at) as u32);
        let memory = vec![
            (walk.interpreter_at, interpreter),
            (interpreter + u64::from(walk.threads_head), state),
            (state + u64::from(walk.thread_id), pointer),
            (block, 1),
            (block + 8, state),
            (block + 16, 7),
            (block + 24, state),
        ];
        assert_eq!(find_thread_variables(&Words(memory.clone()), &layout, 0x1000, 32), away);
        assert_eq!(find_thread_variables(&Words(memory[..2].to_vec()), &layout, 0x1000, 32), [0, 0]);
        assert_eq!(find_thread_variables(&Words(memory), &layout, 0x1000, 64), [0, 0]);
    }
}
