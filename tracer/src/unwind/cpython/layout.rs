//! Where each version of CPython keeps what is read: measured with `offsetof` against the headers of that version, release builds,
//! x86-64 (research/unwinding.md §2a).

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLayout {
    /// `co_filename`.
    pub filename: u64,
    /// `co_qualname`; `co_linetable` follows it directly (the check of a cached code object reads both at once).
    pub qualname: u64,
    /// `co_linetable`.
    pub linetable: u64,
    /// `co_firstlineno`.
    pub first_line: u64,
    /// `co_code_adaptive`: the bytecode.
    pub bytecode: u64,
    /// Data of a compact ASCII string.
    pub ascii_data: u64,
    /// Data of a compact non-ASCII string.
    pub unicode_data: u64,
}

/// A version that can be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionLayout {
    /// (major, minor).
    pub minor: (u32, u32),
    /// `_PyRuntime` → the TSS key.
    tss_key: u64,
    /// `_PyRuntime` → pointer to the main interpreter.
    interpreter: u64,
    /// For the walker.
    walk: PythonLayout,
    /// For reading code objects.
    pub code: CodeLayout,
}

impl VersionLayout {
    /// The walker's layout in a process whose `_PyRuntime` is at `runtime`.
    pub const fn walker(&self, runtime: u64) -> PythonLayout {
        PythonLayout {
            tss_key_at: runtime + self.tss_key,
            interpreter_at: runtime + self.interpreter,
            ..self.walk
        }
    }
}

/// glibc's `struct pthread` → `specific_1stblock` (nptl/descr.h, 2.36; the same from 2.4 to 2.41 on x86-64). Where it differs the
/// thread's state is not validated there, and the list of threads serves.
const TSD_BLOCK: u32 = 0x310;

/// Fields of the walker's layout that the known versions share.
const WALK: PythonLayout = PythonLayout {
    tss_key_at: 0,
    interpreter_at: 0,
    tsd_block: TSD_BLOCK,
    threads_head: 0,
    thread_next: 8,
    thread_id: 0,
    thread_frame: 56,
    cframe_frame: PythonLayout::ABSENT,
    cframe_previous: PythonLayout::ABSENT,
    frame_bytes: 80,
    code_word: 0,
    previous_word: 1,
    instruction_word: 7,
    flags_word: 8,
    owner_shift: 48,
    entry_shift: PythonLayout::NO_SHIFT,
    shim_owner: 3,
    reserved: 0,
    eval_cfa: 0,
    eval_rbp: 0,
};

/// The versions that can be unwound.
pub const KNOWN: [VersionLayout; 3] = [
    VersionLayout {
        minor: (3, 11),
        tss_key: 596,
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
            ..WALK
        },
        code: CodeLayout {
            filename: 112,
            qualname: 128,
            linetable: 136,
            first_line: 72,
            bytecode: 184,
            ascii_data: 48,
            unicode_data: 72,
        },
    },
    VersionLayout {
        minor: (3, 12),
        tss_key: 1548,
        interpreter: 48,
        walk: PythonLayout { threads_head: 72, thread_id: 136, cframe_frame: 0, cframe_previous: 8, ..WALK },
        code: CodeLayout {
            filename: 112,
            qualname: 128,
            linetable: 136,
            first_line: 68,
            bytecode: 192,
            ascii_data: 40,
            unicode_data: 56,
        },
    },
    VersionLayout {
        minor: (3, 13),
        tss_key: 2164,
        interpreter: 640,
        walk: PythonLayout { threads_head: 7344, thread_id: 152, thread_frame: 72, ..WALK },
        code: CodeLayout {
            filename: 112,
            qualname: 128,
            linetable: 136,
            first_line: 68,
            bytecode: 200,
            ascii_data: 40,
            unicode_data: 56,
        },
    },
];

/// The layout of a version, where it is known.
pub fn layout_of(version: Version) -> Option<VersionLayout> {
    KNOWN.into_iter().find(|layout| layout.minor == version.minor())
}
