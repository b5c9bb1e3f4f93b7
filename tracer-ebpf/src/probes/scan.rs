//! Drives the search for the callers of code without unwind information.
//!
//! Leaves out what it takes to believe one: `tracer_ebpf::scan`.

use super::native_walk::{is_full, native_world, push_native};
use super::scratch::{Scratch, repeat, scratch};
use super::user_memory::UserMemory;
use tracer_ebpf::native::SCAN_WORDS;
use tracer_ebpf::saved_stack_pointer;
use tracer_ebpf::scan::{self, MAX_SCANNED};
use tracer_ebpf::wire::{SAMPLE_WORDS, end, register};

/// Frames behind one gap that are taken along frame pointers.
const FOLLOWED: u32 = 512;

/// Looks for the caller of code without unwind information: where a known matrix kernel has it, on the stack that was put away if it was, then
/// on its own. `RUNNING` where the walk goes on, `COMPLETE` where the stack begins here, else `NO_UNWIND_INFO`.
#[inline(always)]
pub(super) fn scan(scratch: &mut Scratch) -> u8 {
    if leave_kernel() != 0 {
        return end::RUNNING;
    }
    let sp = scratch.walk.native.sp;
    let old = saved_stack_pointer::saved_stack_pointer(&scratch.walk.native, &UserMemory).unwrap_or(sp);
    let mut is_found = look_for_caller(old);
    if !is_found && old != sp {
        is_found = look_for_caller(sp);
    }
    if is_found {
        repeat(FOLLOWED, |_| follow_step());
        return end::RUNNING;
    }
    if is_outermost() { end::COMPLETE } else { end::NO_UNWIND_INFO }
}

/// Moves on from a matrix kernel that is known by where it keeps its stack pointer; 0 where it is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn leave_kernel() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    let Some(found) = saved_stack_pointer::leave_kernel(&scratch.walk.native, &mut tables, &memory) else {
        return 0;
    };
    end_last_frame(scratch, found.sp);
    scratch.walk.native = found;
    1
}

/// Whether the stack begins here; then its last frame has no end.
#[inline(always)]
fn is_outermost() -> bool {
    let Some(scratch) = scratch() else { return false };
    let is_outermost = scan::is_outermost(&scratch.walk.native);
    if is_outermost {
        end_last_frame(scratch, u64::MAX);
    }
    is_outermost
}

/// Looks through the words above this stack pointer and takes the caller that they show; says whether they show one.
#[inline(always)]
fn look_for_caller(sp: u64) -> bool {
    let Some(scratch) = scratch() else { return false };
    scratch.walk.native.sp = sp;
    if scratch.walk.scanned >= u64::from(MAX_SCANNED) {
        return false;
    }
    scan_begin();
    repeat(SCAN_WORDS, |word| scan_step(word));
    take_found() != 0
}

/// Looks where the frame pointer leads.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn scan_begin() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    scratch.walk.candidates = scan::begin(&scratch.walk.native, &mut tables, &memory);
    0
}

/// Looks at one word of the stack; 1 where it is the last.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn scan_step(index: u32) -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    scratch.walk.scanned += 1;
    let address = scratch.walk.native.sp + u64::from(index) * 8;
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    let found = &raw mut scratch.walk.candidates;
    // SAFETY: this CPU's scratch; what is tried meanwhile changes other parts of it.
    u32::from(scan::look(&scratch.walk.native, address, unsafe { &mut *found }, &mut tables, &memory))
}

/// Takes what the words say together; 0 where that is nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_found() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    let decided = scan::decide(&scratch.walk.native, &scratch.walk.candidates, &mut tables, &memory);
    let Some((which, proved)) = decided else { return 0 };
    let sp = scratch.walk.candidates.get(which).sp;
    if proved {
        end_last_frame(scratch, sp);
    } else {
        push_native(scratch, u64::from(end::NO_UNWIND_INFO), sp);
        scratch.head.guessed = scratch.head.guessed.saturating_add(1);
        if scratch.walk.native.returned == 0 {
            let depth = sp.wrapping_sub(scratch.walk.registers[register::SP]);
            scratch.head.guess_depth = u16::try_from(depth).unwrap_or(0);
        }
    }
    scratch.walk.native = *scratch.walk.candidates.get(which);
    1
}

/// Takes one more frame without unwind information whose caller a frame pointer proves, or shows behind a mark; 1 where there is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn follow_step() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    if is_full(scratch) {
        return 1;
    }
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    let found = scan::follow_frame_pointer(&scratch.walk.native, &mut tables, &memory);
    let Some((found, proved)) = found else { return 1 };
    if !proved && scratch.head.guessed == 0 {
        return 1;
    }
    let pc = scratch.walk.native.at();
    scratch.walk.native = found;
    push_native(scratch, pc, found.sp);
    0
}

/// The frame that was taken last ends there.
#[inline(always)]
fn end_last_frame(scratch: &mut Scratch, cfa: u64) {
    let last = (scratch.walk.cursor as usize).wrapping_sub(1) & (SAMPLE_WORDS - 1);
    scratch.words[last] = cfa;
}
