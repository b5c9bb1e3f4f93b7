//! Where CPython keeps what the probes read, in one process; `repr(C)` without padding, written by user space.
//!
//! Leaves out how it is read (`python.rs`).

use crate::code_check::CheckPlaces;

/// Objects and their types, where the class of a method is looked for: Include/object.h and cpython/object.h, the same in 3.8 to 3.15, but for
/// free-threaded builds.
pub mod object {
    /// Offset of `ob_type`.
    pub const TYPE: u64 = 8;
    /// Offset of a type's `tp_flags`.
    pub const TYPE_FLAGS: u64 = 168;
    /// The flag of classes (`Py_TPFLAGS_TYPE_SUBCLASS`).
    pub const IS_CLASS: u32 = 1 << 31;
    /// Offset of what a cell holds (Include/cpython/cellobject.h).
    pub(crate) const CELL_CONTENT: u64 = 16;
}

/// Where CPython keeps its state in one process: addresses and offsets in bytes unless said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PythonLayout {
    /// Address of the TSS key (`_PyRuntime…autoTSSkey._key`, an int).
    pub tss_key_at: u64,
    /// Address of the pointer to the main interpreter.
    pub interpreter_at: u64,
    /// Address of the pointer to the state of the thread that holds the lock (`_PyRuntime.gilstate.tstate_current`, up to 3.11); 0: none.
    pub current_at: u64,
    /// Address of the type of cells, in which variables are that an inner function shares (`PyCell_Type`, from 3.11 on); 0: not looked for.
    pub cell: u64,
    /// Offset of glibc's first block of thread-specific data from the thread pointer.
    pub tsd_block: u32,
    /// `PyInterpreterState` → first thread.
    pub threads_head: u32,
    /// `PyThreadState` → next thread.
    pub thread_next: u32,
    /// `PyThreadState.thread_id` (`pthread_self()`, which is the thread pointer).
    pub thread_id: u32,
    /// `PyThreadState` → innermost frame, or → `_PyCFrame` where `cframe_frame` is not `ABSENT`.
    pub thread_frame: u32,
    /// `_PyCFrame` → innermost frame.
    pub cframe_frame: u32,
    /// `_PyCFrame` → previous one.
    pub cframe_previous: u32,
    /// `PyThreadState` → innermost `CFrame`, where frames and `CFrame`s are chained apart (3.10); else `ABSENT`.
    pub thread_cframe: u32,
    /// `PyThreadState` → the `CFrame` that ends that chain: it lies in the thread state, and what it says is the previous one may be
    /// anything.
    pub root_cframe: u32,
    /// Bytes of a frame that are read.
    pub frame_bytes: u32,
    /// Word of a frame that holds the code object.
    pub code_word: u8,
    /// Word of a frame that holds the caller's frame.
    pub previous_word: u8,
    /// Word of a frame that holds the instruction pointer.
    pub instruction_word: u8,
    /// Word of a frame that holds owner and entry flag.
    pub flags_word: u8,
    /// Bits to shift that word for the owner byte; `NO_SHIFT` before 3.11.
    pub owner_shift: u8,
    /// Bits to shift that word for the `is_entry` byte; `NO_SHIFT` where frames have none, `EVERY_FRAME` where each has its own `CFrame`.
    pub entry_shift: u8,
    /// Owners from this one on are shims, not Python frames.
    pub shim_owner: u8,
    /// Low bits of the word with the code object that are no part of its address (tagged references, 3.14 and later).
    pub tag_mask: u8,
    /// From an anchor to the CFA of the native frame that holds it; 0 until it was learned.
    pub eval_cfa: u32,
    /// From that CFA down to where the frame saved its caller's frame pointer; 0: nowhere.
    pub eval_fp: u32,
    /// From the thread pointer down to thread-local variables that hold the state that runs in the thread (3.15); 0: none is known.
    pub tls_below: [u32; 2],
    /// Frame → its first local variable, whose class is sent along; 0: not read.
    pub locals: u32,
    /// What tells code objects from others in their place.
    pub check: CheckPlaces,
    /// A number of the program in this process: what was seen of another one in the same process does not count.
    pub program: u32,
    /// Flags of the classes whose objects are sent themselves, not their class.
    pub itself: u32,
    /// 1: thread-specific data names the state that runs in the thread (3.12 to 3.14), not the one that it was made with; `NO_MAIN`.
    pub key_follows: u16,
    /// Word of a frame that holds the dictionary of its globals; 0: not known.
    pub globals_word: u8,
    /// 1: every sample brings along what tells its code objects from others: some take turns in one place.
    pub takes_turns: u8,
    /// Code objects whose first variable is sent itself, whatever its class; 0: none.
    pub objects: [u64; 2],
    /// A bit for each code object whose class is always looked for, by a hash of its address; of the others it is now and then.
    pub wanted: [u64; WANTED_WORDS],
}

const WANTED_WORDS: usize = 16;

impl PythonLayout {
    /// In `key_follows`: `interpreter_at` is the list of interpreters, and nothing points to the main one, which is the last (3.6).
    pub const NO_MAIN: u16 = 2;
    /// An offset that this version does not have.
    pub const ABSENT: u32 = u32::MAX;
    /// A shift that this version does not have.
    pub const NO_SHIFT: u8 = 255;
    /// Wants the class of every code object.
    pub const ALL_WANTED: [u64; WANTED_WORDS] = [u64::MAX; WANTED_WORDS];

    /// Whether the class of a code object is wanted, or of another one with the same hash.
    #[inline(always)]
    pub fn wants(&self, code: u64) -> bool {
        let (word, bit) = wanted_place(code);
        self.wanted[word] & bit != 0
    }

    /// Wants the class of a code object from now on; whether that is news.
    pub fn want(&mut self, code: u64) -> bool {
        let (word, bit) = wanted_place(code);
        let is_news = self.wanted[word] & bit == 0;
        self.wanted[word] |= bit;
        is_news
    }

    /// Whether the first variable of a code object is sent itself.
    #[inline(always)]
    pub fn wants_object(&self, code: u64) -> bool {
        self.objects[0] == code || self.objects[1] == code
    }

    /// Wants the first variable of a code object itself from now on, instead of that of the one that was wanted before the last; whether that
    /// is news.
    pub fn want_object(&mut self, code: u64) -> bool {
        if self.wants_object(code) {
            return false;
        }
        self.objects = [code, self.objects[0]];
        self.want(code);
        true
    }

    /// In `entry_shift`: each frame is evaluated by a C frame of its own, which holds one `CFrame` (3.10).
    pub const EVERY_FRAME: u8 = 254;
}

const _: () = assert!(size_of::<PythonLayout>() == 264);

/// Word and bit of a code object.
#[inline(always)]
fn wanted_place(code: u64) -> (usize, u64) {
    // 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
    let mixed = code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    ((mixed >> 6) as usize & (WANTED_WORDS - 1), 1 << (mixed & 63))
}
