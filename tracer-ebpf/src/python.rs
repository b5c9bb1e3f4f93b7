//! Walks the frames of CPython from the thread state: independent of native unwinding, so that the Python stack is there even
//! where native code cannot be unwound.
//!
//! What is emitted for each frame: its code object, its instruction pointer, and an anchor: the address of the C local that the
//! interpreter keeps on the native stack where a run of Python frames was entered (`CFrame` of each frame in 3.10, `_PyCFrame` in 3.11,
//! the entry shim frame from 3.12 on; 3.8 and 3.9 have none, their frames are paired by count in user space). The native frame that contains an anchor is the interpreter's, by evidence and not by name. A shim has no code object.
//! Leaves out names and lines: user space reads the code objects.

use crate::memory::{FRAME_WORDS, Memory};
use crate::wire::{PythonLayout, end};

/// Threads looked through when thread-specific data does not name the thread's state.
pub const MAX_THREADS: u32 = 256;

/// A walk in progress.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PythonWalk {
    /// The frame that is next.
    pub frame: u64,
    /// The `_PyCFrame` of the run that is being walked (3.10, 3.11).
    pub cframe: u64,
    /// The `CFrame` in the thread state (3.10).
    pub root_cframe: u64,
    /// The frame's bytes.
    pub words: [u64; FRAME_WORDS],
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonFrame {
    /// Address of the code object; 0 for a shim.
    pub code: u64,
    /// The instruction pointer (address in the code object's bytecode).
    pub instruction: u64,
    /// Address of the C local that marks where this run was entered; 0 inside a run.
    pub anchor: u64,
}

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame, and there are more.
    Frame(PythonFrame),
    /// The walk is over: an `end` code.
    End(u8),
}

/// The thread state by glibc's thread-specific data, if it is this thread's (`thread_id` equals the thread pointer).
#[inline(always)]
pub fn thread_by_key(layout: &PythonLayout, fsbase: u64, memory: &impl Memory) -> Option<u64> {
    let key = memory.read_word(layout.tss_key_at)? & 0xffff_ffff;
    if key >= 32 {
        return None; // The second-level blocks: the list of threads serves.
    }
    let thread = memory.read_word(fsbase + u64::from(layout.tsd_block) + 16 * key + 8)?;
    is_thread(layout, thread, fsbase, memory).then_some(thread)
}

/// Whether `thread` is the state of the thread whose thread pointer is `fsbase`.
#[inline(always)]
pub fn is_thread(layout: &PythonLayout, thread: u64, fsbase: u64, memory: &impl Memory) -> bool {
    thread != 0 && memory.read_word(thread + u64::from(layout.thread_id)) == Some(fsbase)
}

/// The first thread of the main interpreter's list.
#[inline(always)]
pub fn first_thread(layout: &PythonLayout, memory: &impl Memory) -> Option<u64> {
    let interpreter = memory.read_word(layout.interpreter_at)?;
    if interpreter == 0 {
        return None;
    }
    memory.read_word(interpreter + u64::from(layout.threads_head))
}

/// Begins a walk at a thread state; an `end` code where its frames cannot be read.
#[inline(always)]
pub fn begin(
    layout: &PythonLayout,
    thread: u64,
    walk: &mut PythonWalk,
    memory: &impl Memory,
) -> Result<(), u8> {
    let first = memory.read_word(thread + u64::from(layout.thread_frame)).ok_or(end::FAULT)?;
    walk.cframe = 0;
    walk.frame = first;
    if layout.cframe_frame != PythonLayout::ABSENT {
        walk.cframe = first;
        walk.frame = memory.read_word(first + u64::from(layout.cframe_frame)).ok_or(end::FAULT)?;
    } else if layout.thread_cframe != PythonLayout::ABSENT {
        let cframe = memory.read_word(thread + u64::from(layout.thread_cframe)).ok_or(end::FAULT)?;
        walk.cframe = cframe;
        walk.root_cframe = thread + u64::from(layout.root_cframe);
    }
    Ok(())
}

/// Takes one frame and moves to its caller.
#[inline(always)]
pub fn step(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> Step {
    let address = walk.frame;
    if address == 0 {
        return outermost(layout, walk, memory);
    }
    if !memory.read_frame(address, layout.frame_bytes, &mut walk.words) {
        return Step::End(end::FAULT);
    }
    let flags = word(walk, layout.flags_word);
    walk.frame = word(walk, layout.previous_word);
    let owner = flags >> (layout.owner_shift & 63) & 0xff;
    if layout.owner_shift != PythonLayout::NO_SHIFT && owner >= u64::from(layout.shim_owner) {
        return Step::Frame(PythonFrame { code: 0, instruction: 0, anchor: address });
    }
    let mut anchor = 0;
    if layout.entry_shift == PythonLayout::EVERY_FRAME {
        match next_cframe(layout, walk, memory) {
            Some(own) => anchor = own,
            None => return Step::End(end::FAULT),
        }
    } else if layout.entry_shift != PythonLayout::NO_SHIFT && flags >> (layout.entry_shift & 63) & 0xff != 0 {
        anchor = walk.cframe;
        walk.cframe = memory.read_word(anchor + u64::from(layout.cframe_previous)).unwrap_or(0);
    }
    let code = word(walk, layout.code_word) & !u64::from(layout.tag_mask);
    Step::Frame(PythonFrame { code, instruction: word(walk, layout.instruction_word), anchor })
}

/// Behind the outermost frame. In 3.10 a `CFrame` may be left: then the innermost evaluation has made its `CFrame` and not yet its
/// frame, and user space must know; it is emitted without code.
#[inline(always)]
fn outermost(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> Step {
    if layout.entry_shift == PythonLayout::EVERY_FRAME {
        match next_cframe(layout, walk, memory) {
            Some(0) => (),
            Some(left) => return Step::Frame(PythonFrame { code: 0, instruction: 0, anchor: left }),
            None => return Step::End(end::FAULT),
        }
    }
    Step::End(end::COMPLETE)
}

/// Takes one `CFrame` of the chain (3.10); 0 at its end, which is the one in the thread state and on no stack; `None`: not readable.
#[inline(always)]
fn next_cframe(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> Option<u64> {
    let own = walk.cframe;
    if own == walk.root_cframe {
        return Some(0);
    }
    walk.cframe = memory.read_word(own + u64::from(layout.cframe_previous))?;
    Some(own)
}

/// A word of the frame that was read; the mask keeps the index inside for the verifier.
#[inline(always)]
fn word(walk: &PythonWalk, index: u8) -> u64 {
    walk.words[usize::from(index) & (FRAME_WORDS - 1)]
}
