//! Walks the frames of CPython from the thread state: independent of native unwinding, so that the Python stack is there even
//! where native code cannot be unwound.
//!
//! What is emitted for each frame: its code object, its instruction pointer, and an anchor: the address of the C local that the
//! interpreter keeps on the native stack where a run of Python frames was entered (`CFrame` of each frame in 3.10, `_PyCFrame` in 3.11,
//! the entry shim frame from 3.12 on; 3.6 to 3.9 have none, their frames are paired by count in user space). The native frame that contains an anchor is the interpreter's, by evidence and not by name. A shim has no code object.
//! Leaves out names and lines: user space reads the code objects.

use crate::arch::thread as thread_local;
use crate::cycle::{CycleDetector, NOWHERE, is_nowhere};
use crate::memory::{FRAME_WORDS, Memory};
use crate::python_layout::object;
use crate::wire::{PythonLayout, end};

/// Threads looked through when thread-specific data does not name the thread's state.
pub const MAX_THREADS: u32 = 256;

/// A walk in progress.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PythonWalk {
    /// The thread state.
    pub thread: u64,
    /// The frame that is next.
    pub frame: u64,
    /// The `_PyCFrame` of the run that is being walked (3.10, 3.11).
    pub cframe: u64,
    /// The `CFrame` in the thread state (3.10).
    pub root_cframe: u64,
    /// 0 once the innermost run has proved to be one (3.11, 3.12); 1 before its first frame was read, 2 since.
    pub unproved: u64,
    /// 1: the classes of all first variables are looked for, not only of the code objects that are wanted.
    pub all_classes: u64,
    /// The first variable that was looked at last, and what came of it: callers often have the same one.
    pub last_first: u64,
    /// The class of that variable.
    pub last_class: u64,
    /// What tells that the chain leads back into itself.
    pub cycle: CycleDetector,
    /// The frame's bytes.
    pub words: [u64; FRAME_WORDS],
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PythonFrame {
    /// Address of the code object; 0 for a shim.
    pub code: u64,
    /// The instruction pointer (address in the code object's bytecode).
    pub instruction: u64,
    /// Address of the C local that marks where this run was entered; 0 inside a run.
    pub anchor: u64,
    /// Class of the first local variable, or that variable where it is a class or wanted itself; 0: not asked for, or there is none.
    pub class: u64,
}

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame, and there are more.
    Frame(PythonFrame),
    /// The walk is over: an `end` code.
    End(u8),
    /// What was walked so far is not so: the walk begins again, and frames that were emitted do not count. At most once a walk.
    Restart,
}

/// The state that runs in this thread, where something names it.
///
/// A thread has one state for each interpreter that it runs in, and the thread pointer is in all of them. Up to 3.11 the runtime's pointer
/// names the one that holds the lock; thread-specific data stays with the thread's first (`_PyGILState_NoteThreadStateLocked`,
/// Python/pystate.c). From 3.12 to 3.14 it follows (`tstate_activate`); in 3.15 thread-local variables took its place.
#[inline(always)]
pub fn running_thread(layout: &PythonLayout, thread_pointer: u64, memory: &impl Memory) -> Option<u64> {
    let [first, second] = layout
        .tls_below
        .map(|below| if below == 0 { 0 } else { thread_local::variable(thread_pointer, u64::from(below)) });
    let named = |at: u64| {
        let thread = if at == 0 { 0 } else { memory.read_word(at)? };
        is_thread(layout, thread, thread_pointer, memory).then_some(thread)
    };
    if let Some(thread) = named(layout.current_at) {
        return Some(thread);
    }
    if let Some(thread) = named(first) {
        return Some(thread);
    }
    named(second) // Empty in turns while the thread waits for the lock.
}

/// Whether there are sub-interpreters: the list of interpreters, newest first, does not begin with the main one, which is the last.
#[inline(always)]
pub fn has_sub_interpreters(layout: &PythonLayout, memory: &impl Memory) -> bool {
    if layout.key_follows == PythonLayout::NO_MAIN {
        let newest = memory.read_word(layout.interpreter_at).unwrap_or(0);
        return memory.read_word(newest) != Some(0); // `PyInterpreterState.next` stands first.
    }
    // `interpreters.head` stands before `interpreters.main` (pycore_runtime.h, 3.8 to 3.15).
    let newest = memory.read_word(layout.interpreter_at.wrapping_sub(8));
    newest != memory.read_word(layout.interpreter_at)
}

/// The thread state by glibc's thread-specific data, if it is this thread's (`thread_id` equals the thread pointer).
#[inline(always)]
pub fn thread_by_key(layout: &PythonLayout, thread_pointer: u64, memory: &impl Memory) -> Option<u64> {
    let key = memory.read_word(layout.tss_key_at)? & 0xffff_ffff;
    if key >= 32 {
        return None; // The second-level blocks: the list of threads serves.
    }
    let block = thread_pointer.wrapping_add(thread_local::specific_data(layout.tsd_block));
    let thread = memory.read_word(block.wrapping_add(16 * key + 8))?;
    is_thread(layout, thread, thread_pointer, memory).then_some(thread)
}

/// Whether `thread` is the state of the thread whose thread pointer is `thread_pointer`.
#[inline(always)]
pub fn is_thread(layout: &PythonLayout, thread: u64, thread_pointer: u64, memory: &impl Memory) -> bool {
    thread != 0 && memory.read_word(thread.wrapping_add(u64::from(layout.thread_id))) == Some(thread_pointer)
}

/// The first thread of the main interpreter's list.
#[inline(always)]
pub fn first_thread(layout: &PythonLayout, memory: &impl Memory) -> Option<u64> {
    let interpreter = memory.read_word(layout.interpreter_at)?;
    if interpreter == 0 {
        return None;
    }
    memory.read_word(interpreter.wrapping_add(u64::from(layout.threads_head)))
}

/// Begins a walk at a thread state; an `end` code where its frames cannot be read.
#[inline(always)]
pub fn begin(
    layout: &PythonLayout,
    thread: u64,
    walk: &mut PythonWalk,
    memory: &impl Memory,
) -> Result<(), u8> {
    let first = memory.read_word(thread.wrapping_add(u64::from(layout.thread_frame))).ok_or(end::FAULT)?;
    walk.thread = thread;
    walk.cframe = 0;
    walk.unproved = 0;
    walk.all_classes = 0;
    walk.last_first = 0;
    walk.cycle = CycleDetector::new();
    walk.frame = first;
    if layout.cframe_frame != PythonLayout::ABSENT {
        walk.cframe = first;
        walk.unproved = 1;
        walk.frame =
            memory.read_word(first.wrapping_add(u64::from(layout.cframe_frame))).ok_or(end::FAULT)?;
    } else if layout.thread_cframe != PythonLayout::ABSENT {
        let cframe =
            memory.read_word(thread.wrapping_add(u64::from(layout.thread_cframe))).ok_or(end::FAULT)?;
        walk.cframe = cframe;
        walk.root_cframe = thread.wrapping_add(u64::from(layout.root_cframe));
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
    let broken = is_nowhere(address) || walk.cycle.revisits(address);
    if broken || !memory.read_frame(address, layout.frame_bytes, &mut walk.words) {
        // The frame that runs is in memory: where it is not, that is no frame.
        return match walk.unproved {
            1 => restart(layout, walk, memory),
            _ => Step::End(if broken { end::BROKEN_CHAIN } else { end::FAULT }),
        };
    }
    walk.unproved <<= u64::from(walk.unproved == 1);
    let flags = word(walk, layout.flags_word);
    walk.frame = word(walk, layout.previous_word);
    let owner = flags >> (layout.owner_shift & 63) & 0xff;
    if layout.owner_shift != PythonLayout::NO_SHIFT && owner >= u64::from(layout.shim_owner) {
        let shim = PythonFrame { anchor: address, ..PythonFrame::default() };
        let sound = layout.cframe_frame == PythonLayout::ABSENT || follows_cframe(layout, walk, memory);
        return if sound { Step::Frame(shim) } else { unsound(layout, walk, shim, memory) };
    }
    let (mut anchor, mut sound) = (0, true);
    if layout.entry_shift == PythonLayout::EVERY_FRAME {
        match next_cframe(layout, walk, memory) {
            Some(own) => anchor = own,
            None => return Step::End(end::FAULT),
        }
    } else if layout.entry_shift != PythonLayout::NO_SHIFT && flags >> (layout.entry_shift & 63) & 0xff != 0 {
        anchor = walk.cframe;
        sound = follows_cframe(layout, walk, memory);
    }
    let code = word(walk, layout.code_word) & !u64::from(layout.tag_mask);
    let looks = layout.locals != 0 && (walk.all_classes != 0 || layout.wants(code));
    let class = if looks { first_class(layout, walk, (address, code), memory) } else { 0 };
    let frame = PythonFrame { code, instruction: word(walk, layout.instruction_word), anchor, class };
    if sound { Step::Frame(frame) } else { unsound(layout, walk, frame, memory) }
}

/// The dictionary of the globals of the frame that was read last; 0: not known.
#[inline(always)]
pub fn globals(layout: &PythonLayout, walk: &PythonWalk) -> u64 {
    if layout.globals_word == 0 { 0 } else { word(walk, layout.globals_word) }
}

/// What the first local variable of a frame with this code object tells; 0: nothing.
#[inline(always)]
fn first_class(
    layout: &PythonLayout,
    walk: &mut PythonWalk,
    (frame, code): (u64, u64),
    memory: &impl Memory,
) -> u64 {
    let first = first_local(layout, walk, frame, memory).unwrap_or(0) & !u64::from(layout.tag_mask);
    if layout.wants_object(code) {
        return first;
    }
    if first != walk.last_first {
        walk.last_first = first;
        walk.last_class = class_of(layout, first, memory).unwrap_or(0);
    }
    if first == 0 { 0 } else { walk.last_class }
}

/// The class of a frame's first local variable, or that itself where it is a class: what `self` and `cls` tell of a method. A
/// variable that an inner function shares is in a cell.
#[inline(always)]
fn class_of(layout: &PythonLayout, mut first: u64, memory: &impl Memory) -> Option<u64> {
    if first == 0 {
        return None;
    }
    let mut class = memory.read_word(first.wrapping_add(object::TYPE))?;
    if class == layout.cell {
        first = memory.read_word(first.wrapping_add(object::CELL_CONTENT))?;
        class = memory.read_word(first.wrapping_add(object::TYPE))?;
    }
    let flags = memory.read_word(class.wrapping_add(object::TYPE_FLAGS))?;
    Some(if flags & u64::from(layout.itself) != 0 { first } else { class })
}

/// The first local variable of a frame, which may be among the words that were read of it.
#[inline(always)]
fn first_local(layout: &PythonLayout, walk: &PythonWalk, frame: u64, memory: &impl Memory) -> Option<u64> {
    if layout.locals < layout.frame_bytes {
        return Some(word(walk, (layout.locals / 8) as u8));
    }
    memory.read_word(frame.wrapping_add(u64::from(layout.locals)))
}

/// Whether the caller of the run that just ended is the one of the `_PyCFrame` before its own; then that is the next run's.
///
/// 3.11 and 3.12 chain the `_PyCFrame` of an evaluation before they fill in its frame (Python/ceval.c, `_PyEval_EvalFrameDefault`): for a
/// few instructions that is whatever lay on the native stack, such as the frame of an earlier call.
#[inline(always)]
fn follows_cframe(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> bool {
    let Some(before) = memory.read_word(walk.cframe.wrapping_add(u64::from(layout.cframe_previous))) else {
        return false;
    };
    let caller = memory.read_word(before.wrapping_add(u64::from(layout.cframe_frame)));
    walk.cframe = before;
    if caller != Some(walk.frame) {
        return false;
    }
    walk.unproved = 0;
    true
}

/// A run whose last frame, this one, is not followed by its evaluation's caller. Either the innermost evaluation has no frame yet and what
/// was walked lay there before, or somebody has broken the chain: the frames so far stay then, and the walk ends behind them.
#[inline(always)]
fn unsound(layout: &PythonLayout, walk: &mut PythonWalk, last: PythonFrame, memory: &impl Memory) -> Step {
    let first = memory.read_word(walk.thread.wrapping_add(u64::from(layout.thread_frame))).unwrap_or(0);
    let innermost = memory.read_word(first.wrapping_add(u64::from(layout.cframe_frame)));
    let outer = memory.read_word(first.wrapping_add(u64::from(layout.cframe_previous))).unwrap_or(0);
    let begun = memory.read_word(outer.wrapping_add(u64::from(layout.cframe_frame)));
    let caller = walk.frame;
    // Frames that lay there before were some evaluation's once: they never led nowhere or to themselves (but a shim lies on the native stack,
    // where anything may be by now). Without an evaluation further out nothing else would be left.
    let in_heap = layout.entry_shift != PythonLayout::NO_SHIFT;
    let broken = in_heap && is_nowhere(caller) || Some(caller) == innermost || begun == Some(0);
    if walk.unproved != 0 && !broken {
        return restart(layout, walk, memory);
    }
    walk.frame = NOWHERE;
    walk.unproved = 0;
    Step::Frame(last)
}

/// Begins again at the caller of the innermost evaluation, which has no frame yet.
#[inline(always)]
fn restart(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> Step {
    walk.unproved = 0;
    walk.cycle = CycleDetector::new();
    let first = memory.read_word(walk.thread.wrapping_add(u64::from(layout.thread_frame))).unwrap_or(0);
    walk.cframe = memory.read_word(first.wrapping_add(u64::from(layout.cframe_previous))).unwrap_or(0);
    match memory.read_word(walk.cframe.wrapping_add(u64::from(layout.cframe_frame))) {
        Some(frame) => {
            walk.frame = frame;
            Step::Restart
        }
        None => Step::End(end::FAULT),
    }
}

/// Behind the outermost frame. In 3.10 a `CFrame` may be left: then the innermost evaluation has made its `CFrame` and not yet its
/// frame, and user space must know; it is emitted without code.
#[inline(always)]
fn outermost(layout: &PythonLayout, walk: &mut PythonWalk, memory: &impl Memory) -> Step {
    if layout.entry_shift == PythonLayout::EVERY_FRAME {
        match next_cframe(layout, walk, memory) {
            Some(0) => (),
            Some(left) if walk.cycle.revisits(left) => return Step::End(end::BROKEN_CHAIN),
            Some(left) => return Step::Frame(PythonFrame { anchor: left, ..PythonFrame::default() }),
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
    walk.cframe = memory.read_word(own.wrapping_add(u64::from(layout.cframe_previous)))?;
    Some(own)
}

/// A word of the frame that was read; the mask keeps the index inside for the verifier.
#[inline(always)]
fn word(walk: &PythonWalk, index: u8) -> u64 {
    walk.words[usize::from(index) & (FRAME_WORDS - 1)]
}
