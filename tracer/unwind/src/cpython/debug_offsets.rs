//! `_Py_DebugOffsets`: where CPython 3.13 and later keeps what is read, by its own word.
//!
//! The table is at the start of `_PyRuntime` (Include/internal/pycore_runtime.h in 3.13, pycore_debug_offsets.h from 3.14 on). Its own
//! layout changes with each minor version, so that it is read by version, and a version that is not known is refused. It is memory of
//! another process: every offset is checked before it is believed. Leaves out what the table does not say and the headers of the
//! version do: the thread-specific key, where frames have their globals, and which owners of frames are not Python.

use super::attributes::Attributes;
use super::layout::{CodeLayout, ObjectHeader, StringLayout, Version, VersionLayout, WALK};
use super::lines::LineTable;
use super::memory::Source;
use crate::anchoring::FrameAnchoring;
use thiserror::Error;
use tracer_ebpf::code_check::FIELD_BYTES;
use tracer_ebpf::memory::FRAME_WORDS;
use tracer_ebpf::python_layout::object;
use tracer_ebpf::wire::PythonLayout;

/// The first bytes of the table.
const COOKIE: u64 = u64::from_ne_bytes(*b"xdebugpy");
/// Words of the table that are read: as many as the largest known one has.
const WORDS: usize = 111;
/// Largest structure that is believed, in bytes: `PyInterpreterState` has some 300 kB in 3.13.
const LARGEST: u64 = 1 << 22;

/// Why a table is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// It cannot be read, or is not there yet: the process is still being loaded.
    #[error("its table of offsets is not there")]
    Absent,
    /// It is another version's than the interpreter says.
    #[error("its table of offsets is of another version")]
    OtherVersion,
    /// A version whose table is not known.
    #[error("a version that is not known to this version of energy-trace")]
    Unknown,
    /// An offset that cannot be.
    #[error("its table of offsets is damaged")]
    Damaged,
}

/// Places in the table of one minor version, in words, and what the table does not say.
struct Table {
    minor: (u32, u32),
    /// First word of `thread_state`.
    thread: usize,
    /// `thread_state.thread_id`.
    thread_id: usize,
    /// First word of `interpreter_frame`.
    frame: usize,
    /// `interpreter_frame.owner`.
    owner: usize,
    /// First word of `code_object`.
    code: usize,
    /// `code_object.co_code_adaptive`.
    bytecode: usize,
    /// `code_object.co_tlbc`; 0 where free-threaded builds have none.
    copies: usize,
    /// First word of `bytes_object`.
    bytes: usize,
    /// First word of `unicode_object`.
    string: usize,
    /// `_PyRuntime` → the TSS key; 0 where there is none.
    tss_key: u64,
    tag_mask: u8,
    anchoring: FrameAnchoring,
}

/// Tables by version: 3.13.0, 3.14.10 and 3.15.2.
const TABLES: [Table; 3] = [
    Table {
        minor: (3, 13),
        thread: 19,
        thread_id: 24,
        frame: 28,
        owner: 33,
        code: 34,
        bytecode: 43,
        copies: 0,
        bytes: 64,
        string: 67,
        tss_key: 2164,
        tag_mask: 0,
        anchoring: FrameAnchoring::Anchors,
    },
    Table {
        minor: (3, 14),
        thread: 22,
        thread_id: 27,
        frame: 31,
        owner: 36,
        code: 39,
        bytecode: 48,
        copies: 49,
        bytes: 74,
        string: 77,
        tss_key: 2340,
        tag_mask: 3,
        anchoring: FrameAnchoring::Anchors,
    },
    Table {
        minor: (3, 15),
        thread: 22,
        thread_id: 30,
        frame: 39,
        owner: 44,
        code: 47,
        bytecode: 56,
        copies: 57,
        bytes: 86,
        string: 89,
        tss_key: 0,
        tag_mask: 3,
        anchoring: FrameAnchoring::AnchorsAboveBase,
    },
];

/// Minor versions whose table is known.
pub fn known_minors() -> impl Iterator<Item = (u32, u32)> {
    TABLES.iter().map(|table| table.minor)
}

/// Reads the table of an interpreter of that version, whose `_PyRuntime` is at `runtime`.
pub fn read_layout(
    source: &impl Source,
    runtime: u64,
    version: Version,
) -> Result<VersionLayout, TableError> {
    let table = TABLES.iter().find(|t| t.minor == version.minor()).ok_or(TableError::Unknown)?;
    let mut bytes = [0; WORDS * 8];
    source.read(runtime, &mut bytes).ok_or(TableError::Absent)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
    }
    decode_layout(&words, table, version)
}

fn decode_layout(words: &[u64; WORDS], table: &Table, version: Version) -> Result<VersionLayout, TableError> {
    let [cookie, hex, free_threaded, ..] = *words;
    if cookie != COOKIE {
        return Err(TableError::Absent);
    }
    if hex != u64::from(version.hex) {
        return Err(TableError::OtherVersion);
    }
    if free_threaded > 1 {
        return Err(TableError::Damaged);
    }
    let fields = Fields { words, free_threaded: free_threaded == 1 };
    layout_of(&fields, table).ok_or(TableError::Damaged)
}

/// Checked access to the table.
struct Fields<'a> {
    words: &'a [u64; WORDS],
    free_threaded: bool,
}

impl Fields<'_> {
    fn word(&self, at: usize) -> Option<u64> {
        self.words.get(at).copied()
    }

    /// Offset of a field of `bytes` bytes, aligned to its size, in the structure whose size is at `size`.
    fn field(&self, size: usize, at: usize, bytes: u64) -> Option<u64> {
        let (size, offset) = (self.word(size)?, self.word(at)?);
        let fits = size <= LARGEST && offset.checked_add(bytes)? <= size && offset.is_multiple_of(bytes);
        fits.then_some(offset)
    }

    /// The same of a pointer, in 32 bits.
    fn pointer(&self, size: usize, at: usize) -> Option<u32> {
        u32::try_from(self.field(size, at, 8)?).ok()
    }

    /// A pointer in a frame, as the number of its word.
    fn frame_word(&self, size: usize, at: usize) -> Option<u8> {
        let word = self.field(size, at, 8)? / 8;
        u8::try_from(word).ok().filter(|&w| usize::from(w) < FRAME_WORDS - 1)
    }
}

/// The layout, if all its offsets can be.
fn layout_of(fields: &Fields<'_>, table: &Table) -> Option<VersionLayout> {
    const RUNTIME: usize = 3;
    const INTERPRETER: usize = 6;
    Some(VersionLayout {
        minor: table.minor,
        tss_key: table.tss_key,
        current: 0,
        // `interpreters.main` follows `interpreters.head` (pycore_runtime.h of all three).
        interpreter: fields.field(RUNTIME, RUNTIME + 2, 8)? + 8,
        walk: PythonLayout {
            threads_head: fields.pointer(INTERPRETER, INTERPRETER + 3)?,
            thread_next: fields.pointer(table.thread, table.thread + 2)?,
            thread_frame: fields.pointer(table.thread, table.thread + 4)?,
            thread_id: fields.pointer(table.thread, table.thread_id)?,
            tag_mask: table.tag_mask,
            key_follows: u16::from(table.tss_key != 0),
            ..walk_of(fields, table)?
        },
        anchoring: table.anchoring,
        code: code_of(fields, table)?,
    })
}

/// The part about frames.
fn walk_of(fields: &Fields<'_>, table: &Table) -> Option<PythonLayout> {
    let owner = fields.field(table.frame, table.owner, 1)?;
    let flags_word = u8::try_from(owner / 8).ok().filter(|&w| usize::from(w) < FRAME_WORDS - 1)?;
    let (previous_word, code_word, instruction_word) = (
        fields.frame_word(table.frame, table.frame + 1)?,
        fields.frame_word(table.frame, table.frame + 2)?,
        fields.frame_word(table.frame, table.frame + 3)?,
    );
    let last = previous_word.max(code_word).max(instruction_word).max(flags_word);
    // Free-threaded builds begin objects in another way: classes are not looked at there.
    let locals = if fields.free_threaded { 0 } else { fields.frame_word(table.frame, table.frame + 4)? };
    let last = last.max(locals);
    Some(PythonLayout {
        frame_bytes: (u32::from(last) + 1) * 8,
        previous_word,
        code_word,
        instruction_word,
        flags_word,
        owner_shift: u8::try_from(owner % 8 * 8).ok()?,
        locals: u32::from(locals) * 8,
        // `f_globals` is the fourth pointer of a frame in all three (pycore_frame.h, pycore_interpframe_structs.h).
        globals_word: 3,
        itself: object::IS_CLASS,
        ..WALK
    })
}

/// The part about code objects and what they point to.
fn code_of(fields: &Fields<'_>, table: &Table) -> Option<CodeLayout> {
    let pointer = |place: usize| fields.field(table.code, table.code + place, 8);
    let (filename, qualname, linetable) = (pointer(1)?, pointer(3)?, pointer(4)?);
    let first_line = fields.field(table.code, table.code + 5, 4)?;
    // What tells code objects from others is in a few words (`check_places`).
    let words = linetable.checked_sub(u64::from(FIELD_BYTES) - 8)?..qualname;
    if linetable != qualname + 8 || !words.contains(&filename) || !words.contains(&first_line) {
        return None;
    }
    // Free-threaded builds copy the bytecode for each thread but the first from 3.14 on; without the copies' place lines would be wrong.
    let copies = if fields.free_threaded && table.copies != 0 {
        Some(fields.field(table.code, table.copies, 8).filter(|&at| at != 0)?)
    } else {
        None
    };
    let ascii_data = fields.word(table.string + 3).filter(|&size| size <= 128)?;
    let header = match (fields.free_threaded, table.minor) {
        (true, _) => ObjectHeader::Owned,
        (false, (3, 13)) => ObjectHeader::Count64,
        (false, _) => ObjectHeader::Count32,
    };
    let attributes = match (fields.free_threaded, table.minor) {
        (false, (3, 13)) => Attributes::Inline,
        _ => Attributes::Unknown,
    };
    Some(CodeLayout {
        header,
        filename,
        qualname,
        linetable,
        lines: LineTable::Locations,
        first_line,
        bytecode: fields.field(table.code, table.bytecode, 1)?,
        copies,
        classes: None,
        sees_receivers: !fields.free_threaded,
        attributes,
        bytes_size: fields.field(table.bytes, table.bytes + 1, 8)?,
        bytes_data: fields.field(table.bytes, table.bytes + 2, 1)?,
        string: StringLayout {
            state: fields.field(table.string, table.string + 1, 4)?,
            // `interned` has a byte in free-threaded builds of 3.14 and later (Include/cpython/unicodeobject.h).
            kind_bit: if fields.free_threaded && table.minor >= (3, 14) { 8 } else { 2 },
            length: fields.field(table.string, table.string + 2, 8)?,
            ascii_data,
            // Behind it: `utf8_length`, `utf8` (Include/cpython/unicodeobject.h).
            unicode_data: ascii_data + 16,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{COOKIE, TableError, WORDS, read_layout};
    use crate::cpython::layout::Version;
    use crate::cpython::memory::Source;

    /// The first 73 words of `_PyRuntime` in CPython 3.13.0 (pyenv's libpython3.13.so.1.0).
    const TABLE_3_13: [u64; 73] = include!("debug_offsets_3_13.in");
    const VERSION: Version = Version { hex: 0x030d_00f0 };

    struct Snapshot(Vec<u64>);

    impl Source for Snapshot {
        fn read(&self, _address: u64, out: &mut [u8]) -> Option<()> {
            for (out, word) in out.chunks_exact_mut(8).zip(&self.0) {
                out.copy_from_slice(&word.to_ne_bytes());
            }
            (!self.0.is_empty()).then_some(())
        }
    }

    fn snapshot(change: impl Fn(&mut Vec<u64>)) -> Snapshot {
        let mut words = TABLE_3_13.to_vec();
        words.resize(WORDS, 0);
        change(&mut words);
        Snapshot(words)
    }

    /// The table of 3.13.0 gives the offsets that were measured with `offsetof`.
    #[test]
    fn agrees_with_the_headers() {
        let layout = read_layout(&snapshot(|_| ()), 0, VERSION).unwrap();
        let walk = layout.walker(0x1000);
        assert_eq!((walk.tss_key_at, walk.interpreter_at), (0x1000 + 2164, 0x1000 + 640));
        assert_eq!(
            (walk.threads_head, walk.thread_next, walk.thread_id, walk.thread_frame),
            (7344, 8, 152, 72)
        );
        assert_eq!((walk.code_word, walk.previous_word, walk.instruction_word), (0, 1, 7));
        assert_eq!((walk.flags_word, walk.owner_shift, walk.locals, walk.frame_bytes), (8, 48, 72, 80));
        let code = layout.code;
        assert_eq!((code.filename, code.qualname, code.first_line, code.bytecode), (112, 128, 68, 200));
        assert_eq!((code.string.ascii_data, code.string.unicode_data, code.bytes_data), (40, 56, 32));
    }

    /// The first words of `_PyRuntime` in CPython 3.14.10 (Debian sid), as far as they are used.
    const TABLE_3_14: [u64; 81] = include!("debug_offsets_3_14.in");

    /// A free-threaded 3.14 says where the copies of its bytecode are, and is refused where it does not; the flag before a string's kind has
    /// eight bits there. This is the table of a build with a lock, with the offsets of code objects that a free-threaded one's header has.
    #[test]
    fn free_threaded_builds() {
        let read = |copies: u64, flag: u64| {
            let mut words = TABLE_3_14.to_vec();
            words.resize(WORDS, 0);
            let code = [240, 128, 136, 144, 152, 84, 68, 112, 120, 224, copies];
            words[39..50].copy_from_slice(&code);
            words[2] = flag;
            read_layout(&Snapshot(words), 0, Version { hex: 0x030e_0af0 })
        };
        let layout = read(216, 1).unwrap();
        assert_eq!((layout.code.copies, layout.code.bytecode), (Some(216), 224));
        assert_eq!((layout.code.string.kind_bit, read(0, 0).unwrap().code.string.kind_bit), (8, 2));
        assert_eq!(layout.walker(0).tag_mask, 3);
        assert_eq!(read(0, 0).unwrap().code.copies, None);
        assert_eq!(read(0, 1), Err(TableError::Damaged));
        assert_eq!(read(1 << 40, 1), Err(TableError::Damaged));
    }

    /// What cannot be is refused: no table, another version's, an unknown one's, offsets outside their structure.
    #[test]
    fn refused_tables() {
        let read =
            |change: fn(&mut Vec<u64>), hex| read_layout(&snapshot(change), 0, Version { hex }).unwrap_err();
        assert_eq!(read(|w| w[0] = COOKIE + 1, VERSION.hex), TableError::Absent);
        assert_eq!(read(Vec::clear, VERSION.hex), TableError::Absent);
        assert_eq!(read(|_| (), 0x030d_01f0), TableError::OtherVersion);
        assert_eq!(read(|_| (), 0x0310_00f0), TableError::Unknown);
        assert_eq!(read(|w| w[2] = 2, VERSION.hex), TableError::Damaged);
        for place in [5, 9, 21, 23, 24, 29, 30, 31, 33, 35, 37, 38, 39, 43, 65, 66, 68, 69, 70] {
            for nonsense in [u64::MAX, 1 << 40] {
                let damaged = snapshot(|words| words[place] = nonsense);
                let error = read_layout(&damaged, 0, VERSION).unwrap_err();
                assert_eq!(error, TableError::Damaged, "word {place}");
            }
        }
    }
}
