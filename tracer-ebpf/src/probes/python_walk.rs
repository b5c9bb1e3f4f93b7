//! The Python part of a sample: finds the state of the thread, and takes its frames.
//!
//! Leaves out what a frame is (`tracer_ebpf::python`).

use super::registers::{thread_pointer, user_registers};
use super::scratch::{MAX_ANCHORS, STEPS, Scratch, Walks, repeat, scratch, walked};
use super::user_memory::{FrameMemory, UserMemory};
use tracer_ebpf::arch::thread;
use tracer_ebpf::memory::Memory as _;
use tracer_ebpf::python::{self, MAX_THREADS, Step};
use tracer_ebpf::reach::{UNREAD, why_no_thread};
use tracer_ebpf::wire::{MAX_PYTHON_FRAMES, PYTHON_WORDS, SAMPLE_WORDS, end, register};

/// Frames of a loop that another loop repeats.
const STRETCH: u32 = 64;

/// Python frames of this thread; why they end. Like all functions here that have a global name the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn python_frames() -> u32 {
    u32::from(frames())
}

#[inline(always)]
fn frames() -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    let walk = &mut scratch.walk;
    if !walk.process.has_python() {
        return end::NO_INTERPRETER;
    }
    walk.anchor = 0;
    walk.anchors[0] = 0;
    let Some(thread_pointer) = thread_pointer() else { return end::FAULT };
    let thread_pointer = thread::descriptor(thread_pointer, walk.layout.tsd_block);
    walk.thread_pointer = thread_pointer;
    walk.thread = python::running_thread(&walk.layout, thread_pointer, &UserMemory).unwrap_or(0);
    if walk.thread == 0 {
        match find_state() as u8 {
            end::RUNNING => (),
            code => return code,
        }
    }
    walk_python() as u8
}

/// Looks for the state of a thread that nothing names as running; `RUNNING` where it is found, else why the walk ends.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_state() -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    let walk = &mut scratch.walk;
    if let Some(thread) = python::thread_by_key(&walk.layout, walk.thread_pointer, &UserMemory) {
        walk.thread = thread;
        if walk.layout.key_follows == 1 {
            return u32::from(end::RUNNING);
        }
    } else {
        walk.thread = python::first_thread(&walk.layout, &UserMemory).unwrap_or(0);
        repeat(MAX_THREADS, |_| thread_step());
    }
    u32::from(decide_end())
}

/// Whether what was found is the thread's state: it counts only where there is one interpreter.
#[inline(always)]
fn decide_end() -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    let walk = &mut scratch.walk;
    if !python::is_thread(&walk.layout, walk.thread, walk.thread_pointer, &UserMemory) {
        let top = || {
            user_registers(&mut walk.registers, walk.kernel_sp)?;
            Ok(walk.registers[register::SP])
        };
        return why_no_thread(&walk.layout, walk.thread, top, &UserMemory);
    }
    if python::has_sub_interpreters(&walk.layout, &UserMemory) {
        return end::AMBIGUOUS;
    }
    end::RUNNING
}

/// Walks from the thread's state; why the walk ends.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_python() -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    let walk = &mut scratch.walk;
    if let Err(code) = python::begin(&walk.layout, walk.thread, &mut walk.python, &UserMemory) {
        return u32::from(code);
    }
    walk.python.all_classes = scratch.codes.looks_at_classes();
    scratch.codes.bring_all(walk.layout.takes_turns != 0);
    scratch.head.python_end = end::RUNNING;
    scratch.window.clear();
    repeat(MAX_PYTHON_FRAMES / STRETCH, |_| python_stretch());
    u32::from(walked(|head| head.python_end))
}

/// Goes on to the next thread; 1 where it is found, or there is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn thread_step() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    let walk = &mut scratch.walk;
    let is_over = walk.thread == 0 || walk.thread == UNREAD;
    if is_over || python::is_thread(&walk.layout, walk.thread, walk.thread_pointer, &UserMemory) {
        return 1;
    }
    walk.thread = UserMemory.read_word(walk.thread + u64::from(walk.layout.thread_next)).unwrap_or(UNREAD);
    0
}

/// Takes as many frames as `STRETCH`; 1 at the end of the walk. A loop over short loops is less to verify than one long loop.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn python_stretch() -> u32 {
    u32::from(repeat(STRETCH / STEPS, |_| python_step()))
}

/// Takes frames; 1 at the end of the walk.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn python_step() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    for _ in 0..STEPS {
        if take_python(scratch) {
            return 1;
        }
    }
    0
}

/// Takes one Python frame; true at the end of the walk.
#[inline(always)]
fn take_python(scratch: &mut Scratch) -> bool {
    let memory = FrameMemory { window: &raw mut scratch.window };
    match python::step(&scratch.walk.layout, &mut scratch.walk.python, &memory) {
        Step::Frame(frame) => {
            let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
            scratch.words[at] = frame.code;
            scratch.words[at + 1] = frame.instruction;
            scratch.words[at + 2] = frame.anchor;
            scratch.words[at + 3] = frame.class;
            scratch.walk.cursor = (at + PYTHON_WORDS) as u64;
            scratch.head.python += 1;
            keep_anchor(&mut scratch.walk, frame.anchor);
            let Scratch { codes, seen, head, walk, .. } = scratch;
            let globals = python::globals(&walk.layout, &walk.python);
            let process = (head.head.pid, walk.layout.program);
            codes.add(
                seen,
                (frame.code, globals),
                process,
                (|code, is| is_same_code(code, is) != 0, |code| _ = check_code(code), || _ = tell_code()),
            );
        }
        Step::Restart => {
            scratch.head.python = 0;
            scratch.walk.cursor = u64::from(scratch.head.kernel);
            scratch.walk.anchor = 0;
            scratch.walk.anchors[0] = 0;
        }
        Step::End(code) => {
            scratch.head.python_end = code;
            return true;
        }
    }
    false
}

/// Whether a code object's own fields say what is remembered of it; 0: they do not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_same_code(code: u64, remembered: u32) -> u32 {
    let Some(Scratch { seen, walk, .. }) = scratch() else { return 0 };
    u32::from(seen.is_same(code, remembered, (walk.layout.check, &UserMemory)))
}

/// Finds what tells a code object from others.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_code(code: u64) -> u32 {
    let Some(Scratch { codes, seen, walk, .. }) = scratch() else { return 0 };
    seen.look(codes, code, (walk.layout.check, &UserMemory), |text| check_text(text) != 0);
    0
}

/// Takes along what the code object says that was looked at last.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tell_code() -> u32 {
    let Some(Scratch { codes, seen, walk, .. }) = scratch() else { return 0 };
    seen.tell(codes, (walk.layout.check, &UserMemory));
    0
}

/// Finds what a string says; 0 where it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_text(text: u64) -> u32 {
    let Some(Scratch { seen, walk, .. }) = scratch() else { return 0 };
    u32::from(seen.say(walk.layout.check, text, &UserMemory))
}

/// Keeps an anchor for the native walk, and a zero behind it.
#[inline(always)]
fn keep_anchor(walk: &mut Walks, anchor: u64) {
    if anchor != 0 && walk.anchor < MAX_ANCHORS as u64 - 1 {
        let at = walk.anchor as usize & (MAX_ANCHORS - 1);
        walk.anchors[at] = anchor;
        walk.anchors[(at + 1) & (MAX_ANCHORS - 1)] = 0;
        walk.anchor += 1;
    }
}
