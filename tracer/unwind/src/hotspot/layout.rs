//! Reads in a process where its HotSpot keeps what is needed: some thirty words, and a few of each piece of the interpreter.
//!
//! What is read is the process's own and may say anything: the probes take every step by its own proof. Leaves out which words these are
//! (`exports.rs`).

use super::exports::Export;
use crate::cpython::memory::Source;
use tracer_ebpf::hotspot_layout::{CodeHeap, HotspotLayout, MAX_HEAPS};

/// Offsets that are believed.
const LARGEST: u64 = 1 << 16;
/// Pieces of the interpreter that are looked at: OpenJDK 17 has some 270.
const MOST_PIECES: usize = 2048;

/// The layout, once the machine has made its interpreter; `None` before, or where it exports no such fields.
pub fn read_layout(source: &impl Source, exports: &[Export], bias: u64) -> Option<HotspotLayout> {
    let machine = Machine { source, exports, bias };
    let bytecodes = machine.bytecodes()?;
    let blob = |field| Some(machine.offset("CodeBlob", field)? as u32);
    let begins = blob("_code_begin");
    let complete = machine.export("CodeBlob", "_frame_complete_offset")?;
    Some(HotspotLayout {
        heaps: machine.heaps()?,
        bytecodes,
        call_stub_return: machine.variable("StubRoutines", "_call_stub_return_address").unwrap_or(0),
        segment_shift: machine.segment_shift()?,
        name: blob("_name")?,
        size: blob("_size")?,
        frame_size: blob("_frame_size").filter(|&at| at != 0)?,
        frame_complete: blob("_frame_complete_offset")?,
        frame_complete_bits: if complete.kind.contains("16") { 16 } else { 32 },
        code: begins.or_else(|| blob("_code_offset"))?,
        code_is_distance: u32::from(begins.is_none()),
    })
}

struct Machine<'a, S> {
    source: &'a S,
    exports: &'a [Export],
    bias: u64,
}

impl<S: Source> Machine<'_, S> {
    fn export(&self, owner: &str, field: &str) -> Option<&Export> {
        self.exports.iter().find(|export| export.owner == owner && export.field == field)
    }

    /// A field's offset.
    fn offset(&self, owner: &str, field: &str) -> Option<u64> {
        let export = self.export(owner, field).filter(|export| !export.is_static)?;
        self.source.word(self.bias.wrapping_add(export.place)).filter(|&offset| offset < LARGEST)
    }

    /// What a variable holds; `None` where that is 0.
    fn variable(&self, owner: &str, field: &str) -> Option<u64> {
        let export = self.export(owner, field).filter(|export| export.is_static)?;
        self.source.word(self.bias.wrapping_add(export.place)).filter(|&word| word != 0)
    }

    fn field(&self, object: u64, owner: &str, field: &str) -> Option<u64> {
        self.source.word(object.wrapping_add(self.offset(owner, field)?))
    }

    fn half(&self, object: u64, owner: &str, field: &str) -> Option<u64> {
        self.source.half(object.wrapping_add(self.offset(owner, field)?)).map(u64::from)
    }

    /// Where heaps are described: in a list, or (JDK 8) the one.
    fn heap_objects(&self) -> Option<Vec<u64>> {
        if let Some(heap) = self.variable("CodeCache", "_heap") {
            return Some(vec![heap]);
        }
        let list = self.variable("CodeCache", "_heaps")?;
        let length = |owner| self.half(list, owner, "_len");
        let length = length("GrowableArrayBase").or_else(|| length("GenericGrowableArray"))?;
        let data = self.field(list, "GrowableArray<int>", "_data")?;
        (0..length.min(MAX_HEAPS as u64))
            .map(|number| self.source.word(data.wrapping_add(number * 8)))
            .collect()
    }

    fn heaps(&self) -> Option<[CodeHeap; MAX_HEAPS]> {
        let mut heaps = [CodeHeap::default(); MAX_HEAPS];
        for (heap, object) in heaps.iter_mut().zip(self.heap_objects()?) {
            let space = |field: &str, bound: &str| {
                let space = object.wrapping_add(self.offset("CodeHeap", field)?);
                self.field(space, "VirtualSpace", bound)
            };
            *heap = CodeHeap {
                start: space("_memory", "_low_boundary")?,
                end: space("_memory", "_high_boundary")?,
                segments: space("_segmap", "_low_boundary")?,
            };
        }
        Some(heaps)
    }

    fn segment_shift(&self) -> Option<u32> {
        let heap = *self.heap_objects()?.first()?;
        let shift = self.half(heap, "CodeHeap", "_log2_segment_size")?;
        u32::try_from(shift).ok().filter(|shift| *shift < 32)
    }

    /// Where the interpreter's pieces for bytecodes begin and end: they lie behind each other.
    fn bytecodes(&self) -> Option<[u64; 2]> {
        let pieces = self.variable("AbstractInterpreter", "_code")?;
        let count = self.half(pieces, "StubQueue", "_number_of_stubs")?;
        let mut at = self.field(pieces, "StubQueue", "_stub_buffer")?;
        let (size_at, bytecode_at) =
            (self.offset("InterpreterCodelet", "_size")?, self.offset("InterpreterCodelet", "_bytecode")?);
        let mut found: Option<[u64; 2]> = None;
        for _ in 0..usize::try_from(count).ok()?.min(MOST_PIECES) {
            let size = u64::from(self.source.half(at.wrapping_add(size_at))?);
            let is_bytecode = self.source.half(at.wrapping_add(bytecode_at))?.cast_signed() >= 0;
            let end = at.checked_add(size).filter(|_| size != 0)?;
            found = match found {
                None if is_bytecode => Some([at, end]),
                Some([start, last]) if is_bytecode && last == at => Some([start, end]),
                Some(_) if is_bytecode => return None,
                found => found,
            };
            at = end;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::read_layout;
    use crate::cpython::memory::Source;
    use crate::hotspot::Export;
    use std::collections::BTreeMap;
    use tracer_ebpf::hotspot_layout::CodeHeap;

    /// Words by address; what is not there cannot be read.
    #[derive(Default)]
    struct Words(BTreeMap<u64, u64>);

    impl Source for Words {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let word = self.0.get(&(address & !7))?.to_ne_bytes();
            let from = (address & 7) as usize;
            out.copy_from_slice(word.get(from..from + out.len())?);
            Some(())
        }
    }

    /// A machine at a bias of 0x1000 with two heaps and an interpreter of four pieces, two of which are bytecodes.
    struct Machine {
        words: Words,
        exports: Vec<Export>,
    }

    impl Machine {
        fn new() -> Self {
            let mut machine = Self { words: Words::default(), exports: Vec::new() };
            let offsets = [
                ("CodeBlob", "_name", 40),
                ("CodeBlob", "_size", 8),
                ("CodeBlob", "_frame_size", 12),
                ("CodeBlob", "_frame_complete_offset", 16),
                ("CodeBlob", "_code_begin", 24),
                ("CodeHeap", "_memory", 0),
                ("CodeHeap", "_segmap", 64),
                ("CodeHeap", "_log2_segment_size", 128),
                ("VirtualSpace", "_low_boundary", 0),
                ("VirtualSpace", "_high_boundary", 8),
                ("GrowableArrayBase", "_len", 0),
                ("GrowableArray<int>", "_data", 8),
                ("StubQueue", "_stub_buffer", 8),
                ("StubQueue", "_number_of_stubs", 16),
                ("InterpreterCodelet", "_size", 0),
                ("InterpreterCodelet", "_bytecode", 8),
            ];
            for (at, (owner, field, offset)) in (0x100..).step_by(8).zip(offsets) {
                machine.export(owner, field, false, at, offset);
            }
            machine.export("CodeCache", "_heaps", true, 0x300, 0x9000);
            machine.export("AbstractInterpreter", "_code", true, 0x308, 0x9100);
            machine.export("StubRoutines", "_call_stub_return_address", true, 0x310, 0x5040);
            machine.write(0x9000, &[2, 0x9020]);
            machine.write(0x9020, &[0xa000, 0xb000]);
            for (heap, start) in [(0xa000, 0x5_0000), (0xb000, 0x6_0000)] {
                machine.write(heap, &[start, start + 0x1_0000]);
                machine.write(heap + 64, &[start << 8]);
                machine.write(heap + 128, &[7]);
            }
            machine.write(0x9100, &[0, 0xc000, 4]);
            for (piece, bytecode) in [(0xc000, u64::MAX), (0xc020, 0), (0xc040, 7), (0xc060, u64::MAX)] {
                machine.write(piece, &[32, bytecode]);
            }
            machine
        }

        fn export(&mut self, owner: &str, field: &str, is_static: bool, place: u64, word: u64) {
            let (owner, field, kind) = (owner.to_owned(), field.to_owned(), "int".to_owned());
            self.exports.push(Export { owner, field, kind, is_static, place });
            self.write(0x1000 + place, &[word]);
        }

        fn write(&mut self, at: u64, words: &[u64]) {
            self.words.0.extend((at..).step_by(8).zip(words.iter().copied()));
        }
    }

    /// What is read is where the words say; before the interpreter is made there is no layout, and none where a field is not exported.
    #[test]
    fn what_the_machine_says() {
        let mut machine = Machine::new();
        let layout = read_layout(&machine.words, &machine.exports, 0x1000).unwrap();
        let heap = |start| CodeHeap { start, end: start + 0x1_0000, segments: start << 8 };
        assert_eq!(layout.heaps[..2], [heap(0x5_0000), heap(0x6_0000)]);
        assert_eq!(layout.heaps[2..], [CodeHeap::default(); 2]);
        assert_eq!(layout.bytecodes, [0xc020, 0xc060]);
        assert_eq!((layout.call_stub_return, layout.segment_shift), (0x5040, 7));
        assert_eq!((layout.frame_size, layout.code, layout.code_is_distance), (12, 24, 0));
        let lacking: Vec<Export> =
            machine.exports.iter().filter(|export| export.field != "_frame_size").cloned().collect();
        assert_eq!(read_layout(&machine.words, &lacking, 0x1000), None);
        machine.write(0x1308, &[0]);
        assert_eq!(read_layout(&machine.words, &machine.exports, 0x1000), None);
    }

    /// A list of very many heaps, an endless or a torn interpreter: what is believed is bounded.
    #[test]
    fn what_cannot_be() {
        let mut machine = Machine::new();
        machine.write(0x9000, &[0xffff_ffff]);
        machine.write(0x9020, &[0xa000; 8]);
        let layout = read_layout(&machine.words, &machine.exports, 0x1000).unwrap();
        assert!(layout.heaps.iter().all(|heap| heap.start == 0x5_0000));
        // A piece without bytes; then bytecodes with another piece between them.
        machine.write(0xc020, &[0]);
        assert_eq!(read_layout(&machine.words, &machine.exports, 0x1000), None);
        let mut torn = Machine::new();
        torn.write(0xc048, &[u64::MAX]);
        torn.write(0xc068, &[3]);
        assert_eq!(read_layout(&torn.words, &torn.exports, 0x1000), None);
    }
}
