//! Finds the caller of code that V8 made at run time (Node, Electron), by the frames that V8 walks itself.
//!
//! All of V8's code that calls keeps a frame pointer, and says right below where that points what frame it is: in JavaScript the
//! function's context and the function, elsewhere a small number. Sources: V8 11.3, `src/execution/frame-constants.h` and `frames.h`
//! (`StandardFrameConstants`, `TypeToMarker`), `src/codegen/x64/macro-assembler-x64.cc` (`DropArguments`), and what Node 20 makes. Only what is
//! proved is said: in a function's first and last instructions, where the frame pointer is its caller's, these have to be known ones, or the caller is left to
//! a scan. Leaves out which code is V8's, and names.

use crate::arch::v8 as code;
use crate::memory::Memory;
use crate::native::{NativeWalk, Tables};
use crate::scan::{is_behind_call, is_frame_pointer};
use crate::wire::end;

/// Kinds of frames that there may be.
const MOST_KINDS: u64 = 64;

/// The frame that was left: the stack pointer behind it, and the caller's frame pointer.
struct LeftFrame {
    cfa: u64,
    fp: u64,
}

/// The caller of code that V8 made.
///
/// # Errors
/// An `end` code: `NO_UNWIND_INFO` where nothing proves the caller.
#[inline(always)]
pub fn caller(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Result<NativeWalk, u8> {
    if !code::IS_KNOWN {
        return Err(end::NO_UNWIND_INFO);
    }
    find_caller(walk, tables, memory).ok_or(end::NO_UNWIND_INFO)
}

#[inline(always)]
fn find_caller(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    let LeftFrame { cfa, fp } = leave(walk, tables, memory)?;
    let pc = memory.read_word(cfa.wrapping_sub(8))?;
    is_behind_call(pc, memory).then(|| NativeWalk { pc, sp: cfa, fp, returned: 1, ..NativeWalk::default() })
}

/// Leaves a frame. Where the return address, or the frame pointer that is pushed below it, is on top of the stack, it may not be there yet, or not any
/// more; but an old one may lie there too, so that the code has to say so. What only looks like one, in no code, is an object of the function.
#[inline(always)]
fn leave(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<LeftFrame> {
    let top = memory.read_word(walk.sp)?;
    let (mut back, mut up) = (top, 8);
    if top == walk.fp {
        (back, up) = (memory.read_word(walk.sp.wrapping_add(8))?, 16);
    }
    if is_behind_call(back, memory) {
        let is_between = if up == 8 {
            code::has_no_frame(walk.pc, &walk.returned, memory)?
        } else {
            code::has_pushed(walk.pc, &walk.returned, memory)?
        };
        if is_between {
            return Some(LeftFrame { cfa: walk.sp.wrapping_add(up), fp: walk.fp });
        }
        if is_code(back, tables) {
            return None;
        }
    }
    if walk.returned == 0 && code::drops_arguments(memory.read_word(walk.pc)?) {
        return None;
    }
    let frame = walk.fp;
    if !is_frame_pointer(frame, walk.sp) || !is_of_v8(frame, memory)? {
        return None;
    }
    Some(LeftFrame { cfa: frame.wrapping_add(16), fp: memory.read_word(frame)? })
}

/// Whether there is code. Pointers to objects lie behind whatever the object before them holds: another pointer, say, one of whose bytes is that of
/// a call in one process of 256, and then for as long as the process lives.
#[inline(always)]
fn is_code(pc: u64, tables: &mut impl Tables) -> bool {
    !matches!(tables.rule(pc), Err(end::UNMAPPED))
}

/// Whether a frame says what V8 has its frames say: pointers to objects are odd, numbers are even.
#[inline(always)]
fn is_of_v8(frame: u64, memory: &impl Memory) -> Option<bool> {
    let (first, second) =
        (memory.read_word(frame.wrapping_sub(8))?, memory.read_word(frame.wrapping_sub(16))?);
    let is_kind = first & 1 == 0 && first >> 1 < MOST_KINDS && first != 0;
    Some(is_kind || first & 3 == 1 && second & 3 == 1)
}
