//! What names a code object, read once: what tells it from others and what it says are made of the same bytes.
//!
//! A program may free a code object and make the same again, all the time: read twice, it is the same before and after, and what was read between is
//! of memory that was free. Leaves out line tables, which no check tells.

use super::layout::CodeLayout;
use super::memory::Source;
use energy_trace_model::recording::names::LONGEST_NAME;
use tracer_ebpf::code_check::{FIELD_BYTES, Fields, HEAD_BYTES, Text, Words};

/// Bytes of a string that are kept: as many as a name has at the most, and what stands before.
const MOST: u64 = 4 * (LONGEST_NAME as u64 + 1) + 2 * HEAD_BYTES as u64;

/// Its fields, and the strings that are its file and its name.
pub(super) struct Kept {
    stretches: Vec<(u64, Vec<u8>)>,
    /// Whether all that tells it is there: a string may be too long.
    pub(super) is_whole: bool,
}

impl Kept {
    /// Of the code object at `code`; `None` where something of it cannot be read.
    pub(super) fn read(source: &impl Source, layout: &CodeLayout, code: u64) -> Option<Self> {
        let places = layout.check_places();
        let mut kept = Self { stretches: Vec::new(), is_whole: true };
        let at = code.wrapping_add(u64::from(places.fields));
        let fields = Fields::of(places, &kept.keep(source, at, FIELD_BYTES.into())?);
        for text in [fields.file, fields.name] {
            let at = text.wrapping_add(u64::from(places.text));
            let head = source.stretches(&[(at, HEAD_BYTES)]).pop().flatten()?;
            let all = Text::bytes(places, &head);
            kept.is_whole &= all <= MOST;
            kept.keep(source, at, all.clamp(HEAD_BYTES.into(), MOST))?;
        }
        Some(kept)
    }

    /// Keeps so many bytes, and gives the first words of them.
    fn keep(&mut self, source: &impl Source, at: u64, bytes: u64) -> Option<Words> {
        let read = source.bytes(at, bytes, MOST)?;
        let mut words = Words::default();
        for (word, bytes) in words.iter_mut().zip(read.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        self.stretches.push((at, read));
        Some(words)
    }
}

impl Source for Kept {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let holds = |(at, bytes): &(u64, Vec<u8>)| {
            let from = usize::try_from(address.checked_sub(*at)?).ok()?;
            out.copy_from_slice(bytes.get(from..from.checked_add(out.len())?)?);
            Some(())
        };
        self.stretches.iter().find_map(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, Source};
    use crate::cpython::code::CodeObject;
    use crate::cpython::layout::{CodeLayout, KNOWN};
    use crate::cpython::tests::memory::Words;
    use std::cell::Cell;

    const CODE: u64 = 0x10_0000;
    const FILE: u64 = 0x20_0000;
    const NAME: u64 = 0x30_0000;

    /// A program in which the characters of the file's name are others at one read of them: then the memory was free.
    struct Reused {
        memory: Words,
        reads: Cell<u32>,
        torn: u32,
    }

    impl Source for Reused {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            self.memory.read(address, out)?;
            let characters = FILE + KNOWN[4].code.string.ascii_data;
            if (address..address + out.len() as u64).contains(&(characters + 2)) {
                self.reads.set(self.reads.get() + 1);
                if self.reads.get() == self.torn {
                    out[(characters + 2 - address) as usize] = b'!';
                }
            }
            Some(())
        }
    }

    fn program(layout: &CodeLayout, file: &str) -> Words {
        let mut memory = Words::default();
        memory.0.extend([(CODE, 1), (CODE + 8, 0x50_0000), (CODE + layout.filename, FILE)]);
        memory.0.extend([(CODE + layout.qualname, NAME), (CODE + layout.linetable, 0x40_0000)]);
        for (at, text) in [(FILE, file), (NAME, "run")] {
            memory.0.insert(at + layout.string.length, text.len() as u64);
            memory.0.insert(at + layout.string.length + 8, u64::MAX);
            memory.0.insert(at + layout.string.state, (1 | 1 << 3 | 1 << 4) << layout.string.kind_bit);
            memory.text(at + layout.string.ascii_data, text);
        }
        memory
    }

    /// Whenever the memory was free for a moment: the file is what it is, or nothing was read.
    #[test]
    fn memory_that_was_free_for_a_moment() {
        let layout = KNOWN[4].code;
        let read = |torn| {
            let program = Reused { memory: program(&layout, "/srv/text.py"), reads: Cell::new(0), torn };
            let code = CodeObject::read(&program, &layout, CODE, 0);
            (code.map(|code| code.file), program.reads.get())
        };
        let (whole, reads) = read(0);
        assert_eq!((whole.as_deref(), reads > 2), (Some("/srv/text.py"), true));
        for torn in 1..=reads {
            let (file, _) = read(torn);
            assert!(file.is_none_or(|file| file == "/srv/text.py"), "{torn} of {reads}");
        }
    }

    /// A name that is longer than any is read has its beginning.
    #[test]
    fn a_long_file() {
        let layout = KNOWN[4].code;
        let file = "/srv/".repeat(10_000);
        let code = CodeObject::read(&program(&layout, &file), &layout, CODE, 0).unwrap();
        assert!(code.file.starts_with("/srv//srv/") && code.file.len() <= LONGEST_NAME, "{}", code.file);
    }
}
