//! OpenTelemetry's contexts of threads and processes (OTEP 4947, 4719): where the thread-local variable lies in a process, and the process's own
//! context, which names attributes.
//!
//! Leaves out the variable in its file (`context_variable.rs`), reading a thread's record (`tracer-ebpf`), and what the process's context says
//! (`symbols`).

use super::address_space::named_memory;
use super::context_variable::{ContextVariable, Written};
use super::cpython::memory::{ProcessMemory, Source};
use energy_trace_model::ids::Pid;
use tracer_ebpf::arch::thread;
use tracer_ebpf::thread_context::ThreadVariable;

/// Modules that a process may have.
const MOST_MODULES: u64 = 1 << 16;

impl ContextVariable {
    /// Where it lies in a process that has the file's addresses this much higher; `None` where the loader has not said so yet.
    pub fn place(&self, memory: &impl Source, bias: u64) -> Option<ThreadVariable> {
        let fixed = |offset| ThreadVariable { offset, module: 0 };
        if let Some(distance) = self.of_program {
            return Some(fixed(distance));
        }
        let is_module = |module: &u64| (1..MOST_MODULES).contains(module);
        self.places.iter().find_map(|&(written, svma)| {
            let address = svma.wrapping_add(bias);
            match written {
                Written::Module => {
                    let module = memory.word(address).filter(is_module)?;
                    Some(ThreadVariable { offset: self.at.cast_signed(), module })
                }
                Written::Distance => {
                    memory.word(address).filter(|word| *word != 0).map(|word| fixed(word.cast_signed()))
                }
                Written::Descriptor => {
                    let argument = memory.word(address.wrapping_add(8)).filter(|argument| *argument != 0)?;
                    if thread::is_distance(argument) {
                        return Some(fixed(argument.cast_signed()));
                    }
                    let module = memory.word(argument).filter(is_module)?;
                    let offset = memory.word(argument.wrapping_add(8))?.cast_signed();
                    Some(ThreadVariable { offset, module })
                }
            }
        })
    }
}

/// How the memory of a process's context is named.
const NAMES: [&str; 3] = ["/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX", "[anon:OTEL_CTX"];
/// Mappings of these names that are looked at.
const MOST_NAMED: usize = 8;
/// What it begins with: this, its version, its bytes, when it was published, where it lies.
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
const HEADER_BYTES: u64 = 32;
const VERSION: u32 = 2;
/// Bytes of a context that are read: one has some hundred.
pub const MOST_CONTEXT: u64 = 64 << 10;

/// The context that a process publishes, as bytes; `None`: none, or it is being changed.
pub fn read_context(pid: Pid, memory: &ProcessMemory) -> Option<Vec<u8>> {
    let places = named_memory(pid, &NAMES).ok()?;
    places.into_iter().take(MOST_NAMED).find_map(|place| context_at(memory, place))
}

fn context_at(memory: &impl Source, place: u64) -> Option<Vec<u8>> {
    let header = memory.bytes(place, HEADER_BYTES, HEADER_BYTES)?;
    let word = |at: usize| Some(u64::from_ne_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let (both, published, address) = (word(8)?, word(16)?, word(24)?);
    let (version, bytes) = (both as u32, both >> 32);
    if !header.starts_with(SIGNATURE) || version != VERSION || published == 0 {
        return None;
    }
    let context = memory.bytes(address, bytes, MOST_CONTEXT)?;
    (memory.bytes(place, HEADER_BYTES, HEADER_BYTES)? == header).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::{ContextVariable, Source, ThreadVariable, Written, context_at};
    use std::cell::Cell;

    /// Words at addresses; those at `changes` are others each time.
    #[derive(Default)]
    struct Words {
        words: Vec<(u64, u64)>,
        changes: Option<u64>,
        reads: Cell<u64>,
    }

    impl Source for Words {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            for (word, at) in out.chunks_mut(8).zip((address..).step_by(8)) {
                let &(_, value) = self.words.iter().find(|(place, _)| *place == at)?;
                self.reads.set(self.reads.get() + 1);
                let value = if self.changes == Some(at) { self.reads.get() } else { value };
                word.copy_from_slice(value.to_ne_bytes().get(..word.len())?);
            }
            Some(())
        }
    }

    /// What the loader has written leads to the variable; what it has not, or makes no sense, leads nowhere.
    #[test]
    fn places() {
        let distance = (-24_i64).cast_unsigned();
        let words = vec![
            (0x1010, 3),
            (0x1020, distance),
            (0x1038, 0x50_0000),
            (0x50_0000, 4),
            (0x50_0008, 48),
            (0x1048, 0),
        ];
        let memory = Words { words, ..Words::default() };
        let place = |written, svma| {
            let variable = ContextVariable { at: 16, of_program: None, places: vec![(written, svma)] };
            variable.place(&memory, 0x1000).map(|ThreadVariable { offset, module }| (offset, module))
        };
        assert_eq!(place(Written::Module, 0x10), Some((16, 3)));
        assert_eq!(place(Written::Distance, 0x20), Some((-24, 0)));
        assert_eq!(place(Written::Descriptor, 0x30), Some((48, 4)));
        let nowhere = [
            place(Written::Module, 0x20),
            place(Written::Module, 0x48),
            place(Written::Distance, 0x48),
            place(Written::Descriptor, 0x40),
            place(Written::Descriptor, 0x90),
        ];
        assert_eq!(nowhere, [None; 5]);
        let program = ContextVariable { of_program: Some(-8), ..ContextVariable::default() };
        assert_eq!(program.place(&memory, 7), Some(ThreadVariable { offset: -8, module: 0 }));
    }

    /// A context is read where it is whole: not one of another version, that is being changed, or that is longer than there is.
    #[test]
    fn contexts() {
        let signature = u64::from_ne_bytes(*b"OTEL_CTX");
        let context = |version: u64, bytes: u64, published, changes| {
            let words = vec![(0, signature), (8, bytes << 32 | version), (16, published), (24, 64), (64, 7)];
            context_at(&Words { words, changes, ..Words::default() }, 0)
        };
        assert_eq!(context(2, 8, 1, None), Some(7_u64.to_ne_bytes().to_vec()));
        for nothing in [
            context(1, 8, 1, None),
            context(2, 8, 0, None),
            context(2, 8, 1, Some(16)),
            context(2, 16, 1, None),
            context(2, u64::from(u32::MAX), 1, None),
        ] {
            assert_eq!(nothing, None);
        }
    }
}
