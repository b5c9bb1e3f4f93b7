//! Where each version of CPython up to 3.12 keeps what is read: measured with `offsetof` against the headers of that version, of 64 bits;
//! those of debug builds (`Py_DEBUG`) of 3.8 and later have the same offsets. Leaves out 3.13 and later, which say it themselves (`debug_offsets`).

use super::attributes::Attributes;
use super::lines::LineTable;
use crate::anchoring::FrameAnchoring;
use serde::{Deserialize, Serialize};
use tracer_ebpf::arch::thread::SPECIFIC_DATA;
use tracer_ebpf::code_check::{CheckPlaces, FIELD_BYTES};
use tracer_ebpf::python_layout::object;
use tracer_ebpf::wire::PythonLayout;

/// A version as `PY_VERSION_HEX` packs it: `0x030b02f0` is 3.11.2 final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The packed number.
    pub hex: u32,
}

impl Version {
    /// (major, minor).
    pub const fn minor(self) -> (u32, u32) {
        (self.hex >> 24, self.hex >> 16 & 0xff)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.minor();
        write!(f, "{major}.{minor}.{}", self.hex >> 8 & 0xff)?;
        match self.hex >> 4 & 0xf {
            0xa => write!(f, "a{}", self.hex & 0xf),
            0xb => write!(f, "b{}", self.hex & 0xf),
            0xc => write!(f, "rc{}", self.hex & 0xf),
            _ => Ok(()),
        }
    }
}

/// What user space needs to read code objects and strings; offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeLayout {
    /// How objects begin.
    pub header: ObjectHeader,
    /// `co_filename`.
    pub filename: u64,
    /// `co_qualname`, or `co_name` before 3.11; the line table follows it directly (`check_places`).
    pub qualname: u64,
    /// `co_linetable`, or `co_lnotab` before 3.10.
    pub linetable: u64,
    /// How that table is written.
    pub lines: LineTable,
    /// `co_firstlineno`.
    pub first_line: u64,
    /// `co_code_adaptive`: the bytecode. Not used before 3.11, where frames hold an index and no address.
    pub bytecode: u64,
    /// `co_tlbc`: copies of the bytecode, one a thread, which frames of other threads than the first point into (free-threaded builds of 3.14
    /// and later).
    pub copies: Option<u64>,
    /// Where to look for the class of a method; `None` from 3.11 on, where code objects know their qualified name.
    pub classes: Option<ClassLayout>,
    /// Whether the probes send the class of a method's object though code objects know theirs (`receiver`).
    pub sees_receivers: bool,
    /// Where objects have their own attributes.
    pub attributes: Attributes,
    /// `PyBytesObject.ob_size`.
    pub bytes_size: u64,
    /// `PyBytesObject.ob_sval`.
    pub bytes_data: u64,
    /// Strings.
    pub string: StringLayout,
}

impl CodeLayout {
    /// Where that lies which tells code objects from others: in the words up to the pointer to the line table, all of which stay what they are.
    pub const fn check_places(&self) -> CheckPlaces {
        let fields = self.linetable + 8 - FIELD_BYTES as u64;
        CheckPlaces {
            fields: fields as u16,
            line: (self.first_line - fields) as u8,
            file: (self.filename - fields) as u8,
            text: self.string.length as u8,
            kind_bit: self.string.kind_bit,
            ascii: self.string.ascii_data as u8,
            wide: self.string.unicode_data as u8,
        }
    }
}

/// How objects begin: what tells one that lives from memory that was freed.
///
/// pymalloc writes a pointer or 0 over the first word of what is freed, glibc over the first two, the second with a random word
/// (Objects/obmalloc.c, 3.8 to 3.13; malloc/malloc.c, `tcache_put`, 2.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectHeader {
    /// A count of references in 64 bits, then the type (up to 3.13).
    Count64,
    /// A count of references in 32 bits, flags, then the type (3.14 and later).
    Count32,
    /// The owner's thread pointer, locks and counts, then the type (free-threaded builds).
    Owned,
}

impl ObjectHeader {
    /// Whether these may be the first words of a code object that lives.
    pub fn may_live(self, words: [u64; 4]) -> bool {
        /// References to one code object: its functions and frames.
        const MOST: u64 = 1 << 23;
        /// Objects that never go: 999,999,999 in modules frozen into 3.11 (`_PyObject_IMMORTAL_REFCNT`), later the largest number of 32
        /// bits, from 3.14 on three quarters of it; each may be off by what was counted all the same.
        const FROZEN: std::ops::Range<u64> = 999_000_000..1_001_000_000;
        const IMMORTAL: std::ops::Range<u64> = 0xb000_0000..1 << 32;
        let [first, second, _, fourth] = words;
        let (count, kind) = match self {
            Self::Count64 => (first, second),
            Self::Count32 => (first & 0xffff_ffff, second),
            Self::Owned => (1, fourth),
        };
        let counted = (1..MOST).contains(&count) || FROZEN.contains(&count) || IMMORTAL.contains(&count);
        counted && (1..1 << 47).contains(&kind) && kind.is_multiple_of(8)
    }
}

/// What user space needs to find the class of a method: offsets in functions and code, which differ; those in classes and dictionaries are
/// the same in 3.6 to 3.10 (`class_name`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassLayout {
    /// `PyFunctionObject.func_code`.
    pub function_code: u64,
    /// `PyFunctionObject.func_qualname`.
    pub function_qualname: u64,
    /// `PyCodeObject.co_varnames`.
    pub names: u64,
}

/// What user space needs to read compact strings; offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StringLayout {
    /// `PyASCIIObject.length`.
    pub length: u64,
    /// `PyASCIIObject.state`.
    pub state: u64,
    /// Bits of the state before `kind`: those of `interned`.
    pub kind_bit: u8,
    /// Data of a compact ASCII string.
    pub ascii_data: u64,
    /// Data of a compact non-ASCII string.
    pub unicode_data: u64,
}

/// Strings up to 3.11, which keep a second form of their text.
const OLD_STRING: StringLayout =
    StringLayout { length: 16, state: 32, kind_bit: 2, ascii_data: 48, unicode_data: 72 };

/// A version that can be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionLayout {
    /// (major, minor).
    pub minor: (u32, u32),
    /// `_PyRuntime` (3.6: the list of interpreters) → the TSS key; 0 where there is none.
    pub(super) tss_key: u64,
    /// `_PyRuntime` → pointer to the main interpreter.
    pub(super) interpreter: u64,
    /// `_PyRuntime` → pointer to the running thread's state (`gilstate.tstate_current`, up to 3.11); 0 where there is none.
    pub(super) current: u64,
    /// For the walker.
    pub(super) walk: PythonLayout,
    /// How its frames find their place among native ones.
    pub anchoring: FrameAnchoring,
    /// For reading code objects.
    pub code: CodeLayout,
}

impl VersionLayout {
    /// Takes in where evaluation frames end: bytes from an anchor up to the CFA, and from there down to the saved frame pointer (0: not saved).
    pub const fn learn_eval_frame(&mut self, cfa: u32, fp: u32) {
        (self.walk.eval_cfa, self.walk.eval_fp) = (cfa, fp);
    }

    /// Takes in the thread-local variables that name the state that runs in a thread, in bytes below the thread pointer.
    pub const fn learn_thread_variables(&mut self, below: [u32; 2]) {
        self.walk.tls_below = below;
    }

    /// Takes in where libc keeps a thread's own data (`thread_places`); whether that is news.
    pub const fn learn_thread_places(&mut self, places: u32) -> bool {
        let is_news = self.walk.tsd_block != places;
        self.walk.tsd_block = places;
        is_news
    }

    /// Takes in the address of the type of cells; without it what inner functions share is not looked at.
    pub const fn learn_cells(&mut self, kind: u64) {
        if self.code.sees_receivers {
            self.walk.cell = kind;
        }
    }

    /// Has the probes look for the class of this code object always; whether that is news.
    pub fn want_class(&mut self, code: u64) -> bool {
        self.walk.want(code)
    }

    /// Has the probes send the object that this code object is called on; whether that is news.
    pub fn want_object(&mut self, code: u64) -> bool {
        self.walk.want_object(code)
    }

    /// Has every sample bring along what tells its code objects from others; whether that is news.
    pub const fn want_turns(&mut self) -> bool {
        let is_news = self.walk.takes_turns == 0;
        self.walk.takes_turns = 1;
        is_news
    }

    /// Takes in where variables lie that are in no `_PyRuntime` (3.6), in bytes from the list of interpreters.
    pub(super) const fn learn_variables(&mut self, current: u64, key: u64) {
        (self.current, self.tss_key) = (current, key);
    }

    /// Whether only thread-local variables name the state that runs in a thread (3.15).
    pub const fn is_named_by_variables(&self) -> bool {
        self.tss_key == 0
    }

    /// The walker's layout in a process whose `_PyRuntime` is at `runtime`.
    pub const fn walker(&self, runtime: u64) -> PythonLayout {
        PythonLayout {
            // Address 0 cannot be read: then the list of threads serves.
            tss_key_at: if self.tss_key == 0 { 0 } else { runtime.wrapping_add(self.tss_key) },
            interpreter_at: runtime.wrapping_add(self.interpreter),
            current_at: if self.current == 0 { 0 } else { runtime.wrapping_add(self.current) },
            check: self.code.check_places(),
            ..self.walk
        }
    }
}

/// Fields of the walker's layout that the known versions share.
pub(super) const WALK: PythonLayout = PythonLayout {
    tss_key_at: 0,
    interpreter_at: 0,
    current_at: 0,
    tsd_block: SPECIFIC_DATA,
    threads_head: 0,
    thread_next: 8,
    thread_id: 0,
    thread_frame: 56,
    cframe_frame: PythonLayout::ABSENT,
    cframe_previous: PythonLayout::ABSENT,
    thread_cframe: PythonLayout::ABSENT,
    root_cframe: PythonLayout::ABSENT,
    frame_bytes: 80,
    code_word: 0,
    previous_word: 1,
    instruction_word: 7,
    flags_word: 8,
    owner_shift: 48,
    entry_shift: PythonLayout::NO_SHIFT,
    shim_owner: 3,
    tag_mask: 0,
    eval_cfa: 0,
    eval_fp: 0,
    tls_below: [0; 2],
    key_follows: 0,
    locals: 0,
    check: CheckPlaces::NONE,
    program: 0,
    cell: 0,
    itself: 0,
    globals_word: 0,
    takes_turns: 0,
    objects: [0; 2],
    wanted: [0; 16],
};

/// Frames as objects (`PyFrameObject`), before 3.11: no owner; the instruction is an index (`f_lasti`, the lower half of its word).
const OLD_WALK: PythonLayout = PythonLayout {
    threads_head: 8,
    thread_id: 176,
    thread_frame: 24,
    frame_bytes: 112,
    code_word: 4,
    previous_word: 3,
    instruction_word: 13,
    flags_word: 0,
    owner_shift: PythonLayout::NO_SHIFT,
    locals: 360,
    globals_word: 6,
    itself: object::IS_CLASS,
    wanted: PythonLayout::ALL_WANTED,
    ..WALK
};

/// Functions up to 3.9, and code objects from 3.8 on.
const OLD_CLASSES: ClassLayout = ClassLayout { function_code: 16, function_qualname: 104, names: 72 };

/// Code objects before 3.11.
const OLD_CODE: CodeLayout = CodeLayout {
    header: ObjectHeader::Count64,
    filename: 104,
    qualname: 112,
    linetable: 120,
    lines: LineTable::Lnotab,
    first_line: 40,
    bytecode: 0,
    copies: None,
    classes: Some(OLD_CLASSES),
    sees_receivers: false,
    attributes: Attributes::Unknown,
    bytes_size: 16,
    bytes_data: 32,
    string: OLD_STRING,
};

/// Code objects before 3.8, which have a field less.
const OLDEST_CODE: CodeLayout = CodeLayout {
    filename: 96,
    qualname: 104,
    linetable: 112,
    first_line: 36,
    classes: Some(ClassLayout { names: 64, ..OLD_CLASSES }),
    ..OLD_CODE
};

/// The versions up to 3.12 that can be unwound.
pub const KNOWN: [VersionLayout; 7] = [
    VersionLayout {
        minor: (3, 6),
        // No `_PyRuntime`: `learn_variables`.
        tss_key: 0,
        current: 0,
        interpreter: 0,
        walk: PythonLayout {
            thread_id: 152,
            key_follows: PythonLayout::NO_MAIN,
            frame_bytes: 124,
            instruction_word: 15,
            locals: 376,
            ..OLD_WALK
        },
        anchoring: FrameAnchoring::Counted,
        code: OLDEST_CODE,
    },
    VersionLayout {
        minor: (3, 7),
        tss_key: 1508,
        current: 1480,
        interpreter: 32,
        walk: OLD_WALK,
        anchoring: FrameAnchoring::Counted,
        code: OLDEST_CODE,
    },
    VersionLayout {
        minor: (3, 8),
        tss_key: 1396,
        current: 1368,
        interpreter: 40,
        walk: OLD_WALK,
        anchoring: FrameAnchoring::Counted,
        code: OLD_CODE,
    },
    VersionLayout {
        minor: (3, 9),
        tss_key: 588,
        current: 568,
        interpreter: 40,
        walk: OLD_WALK,
        anchoring: FrameAnchoring::Counted,
        code: OLD_CODE,
    },
    VersionLayout {
        minor: (3, 10),
        tss_key: 588,
        current: 568,
        interpreter: 40,
        walk: PythonLayout {
            cframe_previous: 8,
            thread_cframe: 48,
            root_cframe: 264,
            entry_shift: PythonLayout::EVERY_FRAME,
            instruction_word: 12,
            frame_bytes: 104,
            locals: 352,
            ..OLD_WALK
        },
        anchoring: FrameAnchoring::AnchorPerFrame,
        code: CodeLayout {
            lines: LineTable::Ranges,
            classes: Some(ClassLayout { function_code: 48, function_qualname: 40, ..OLD_CLASSES }),
            ..OLD_CODE
        },
    },
    VersionLayout {
        minor: (3, 11),
        tss_key: 596,
        current: 576,
        interpreter: 48,
        walk: PythonLayout {
            threads_head: 16,
            thread_id: 152,
            cframe_frame: 8,
            cframe_previous: 16,
            code_word: 4,
            previous_word: 6,
            owner_shift: 40,
            entry_shift: 32,
            locals: 72,
            globals_word: 1,
            itself: object::IS_CLASS,
            ..WALK
        },
        anchoring: FrameAnchoring::Anchors,
        code: CodeLayout {
            header: ObjectHeader::Count64,
            filename: 112,
            qualname: 128,
            linetable: 136,
            lines: LineTable::Locations,
            first_line: 72,
            bytecode: 184,
            copies: None,
            classes: None,
            sees_receivers: true,
            attributes: Attributes::Apart,
            bytes_size: 16,
            bytes_data: 32,
            string: OLD_STRING,
        },
    },
    VersionLayout {
        minor: (3, 12),
        tss_key: 1548,
        current: 0,
        interpreter: 48,
        walk: PythonLayout {
            threads_head: 72,
            thread_id: 136,
            cframe_frame: 0,
            cframe_previous: 8,
            key_follows: 1,
            locals: 72,
            globals_word: 3,
            itself: object::IS_CLASS,
            ..WALK
        },
        anchoring: FrameAnchoring::Anchors,
        code: CodeLayout {
            header: ObjectHeader::Count64,
            filename: 112,
            qualname: 128,
            linetable: 136,
            lines: LineTable::Locations,
            first_line: 68,
            bytecode: 192,
            copies: None,
            classes: None,
            sees_receivers: true,
            attributes: Attributes::Tagged,
            bytes_size: 16,
            bytes_data: 32,
            string: StringLayout { ascii_data: 40, unicode_data: 56, ..OLD_STRING },
        },
    },
];

/// The layout of a version, where it is known.
pub fn layout_of(version: Version) -> Option<VersionLayout> {
    KNOWN.into_iter().find(|layout| layout.minor == version.minor())
}

#[cfg(test)]
mod tests {
    use super::ObjectHeader::{Count32, Count64, Owned};

    /// First words of code objects as interpreters have them: a function's, one frozen into 3.11, one that never goes in 3.12, and those of
    /// 3.14 and 3.13t.
    #[test]
    fn what_lives() {
        let (kind, static_kind) = (0x7f64_2b24_9b00, 0x95_9440);
        assert!(Count64.may_live([4, kind, 3, 0]) && Count64.may_live([0x3b9a_ca02, static_kind, 0xc2, 0]));
        assert!(
            Count64.may_live([0xffff_ffff, kind, 0, 0])
                && Count32.may_live([3 << 48 | 0xc000_0000, kind, 0, 0])
        );
        assert!(Count32.may_live([3, kind, 0, 0]));
        assert!(Owned.may_live([0x7f32_348f_f740, 0x5_4100_0000, 2, kind]));
    }

    /// What allocators write over objects that are freed: a pointer or 0; a mangled pointer and a random word.
    #[test]
    fn what_was_freed() {
        let (kind, next) = (0x7f64_2b24_9b00, 0x7f64_2aad_2b90);
        assert!(!Count64.may_live([0, kind, 0, 0]) && !Count64.may_live([next, kind, 0, 0]));
        assert!(!Count32.may_live([0, kind, 0, 0]) && !Count32.may_live([next, kind, 0, 0]));
        assert!(!Count64.may_live([0x2b3c, 0x9f3d_11a2_8b7e_4410, 0, 0]));
        assert!(!Owned.may_live([next, 0, 0, 0x9f3d_11a2_8b7e_4410]));
    }
}
