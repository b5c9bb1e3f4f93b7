//! Finds the caller of code that V8 made at run time (Node, Electron), by the frames that V8 walks itself.
//!
//! All of V8's code that calls keeps `rbp` as its frame pointer, and says right below where that points what frame it is: in JavaScript the
//! function's context and the function, elsewhere a small number. Sources: V8 11.3, `src/execution/frame-constants.h` and `frames.h`
//! (`StandardFrameConstants`, `TypeToMarker`), `src/codegen/x64/macro-assembler-x64.cc` (`DropArguments`), and what Node 20 makes. Only what is
//! proved is said: in a function's first and last instructions, where `rbp` is its caller's, these have to be known ones, or the caller is left to
//! a scan. Leaves out which code is V8's, and names.

use crate::memory::Memory;
use crate::native::{NativeWalk, Tables};
use crate::scan::{is_behind_call, is_frame_pointer};
use crate::wire::end;

/// Kinds of frames that there may be.
const MOST_KINDS: u64 = 64;

/// Instructions where a frame is made and left, as their first bytes.
mod code {
    /// `push %rbp`.
    pub(super) const PUSH_RBP: u64 = 0x55;
    /// `mov %rsp, %rbp`.
    pub(super) const MOV_RBP: u64 = 0xe5_8948;
    /// `pop %rbp`.
    pub(super) const POP_RBP: u64 = 0x5d;
    /// `cmp $…, %rcx`, by a byte, and `jg`: whether there are more arguments than the function knows.
    pub(super) const CMP_RCX: u64 = 0xf9_8348;
    pub(super) const JG: u64 = 0x7f;
    /// `ret`, and with bytes of arguments to drop.
    pub(super) const RET: [u64; 2] = [0xc3, 0xc2];
    /// `mov …(%rcx), %rbx; testb $1, …(%rbx)`, and `jne`: whether optimized code is still of use.
    pub(super) const MOV_RBX: u64 = 0x59_8b48;
    pub(super) const TESTB: u64 = 0x43f6;
    pub(super) const JNE: u64 = 0x850f;
    /// `mov $…, %ebx; movabs $…, %r12; call`: baseline code asks a function of V8 for its frame.
    pub(super) const MOV_EBX: u64 = 0xbb;
    pub(super) const MOVABS_R12: u64 = 0xbc49;
    pub(super) const CALL: u64 = 0xe8;
}

/// The frame that was left: the stack pointer behind it, and the caller's `rbp`.
struct Left {
    cfa: u64,
    bp: u64,
}

/// The caller of code that V8 made.
///
/// # Errors
/// An `end` code: `NO_UNWIND_INFO` where nothing proves the caller.
#[inline(always)]
pub fn caller(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Result<NativeWalk, u8> {
    find_caller(walk, tables, memory).ok_or(end::NO_UNWIND_INFO)
}

#[inline(always)]
fn find_caller(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<NativeWalk> {
    let Left { cfa, bp } = leave(walk, tables, memory)?;
    let pc = memory.read_word(cfa.wrapping_sub(8))?;
    is_behind_call(pc, memory).then(|| NativeWalk { pc, sp: cfa, bp, returned: 1, ..NativeWalk::default() })
}

/// Leaves a frame. Where the return address, or what `push %rbp` leaves below it, is on top of the stack, it may not be there yet, or not any
/// more; but an old one may lie there too, so that the code has to say so. What only looks like one, in no code, is an object of the function.
#[inline(always)]
fn leave(walk: &NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Option<Left> {
    let top = memory.read_word(walk.sp)?;
    let (mut back, mut up) = (top, 8);
    if top == walk.bp {
        (back, up) = (memory.read_word(walk.sp.wrapping_add(8))?, 16);
    }
    if is_behind_call(back, memory) {
        let is_between = if up == 8 { has_no_frame(walk, memory)? } else { has_pushed(walk, memory)? };
        if is_between {
            return Some(Left { cfa: walk.sp.wrapping_add(up), bp: walk.bp });
        }
        if is_code(back, tables) {
            return None;
        }
    }
    if walk.returned == 0 && drops_arguments(memory.read_word(walk.pc)?) {
        return None;
    }
    let frame = walk.bp;
    if !is_frame_pointer(frame, walk.sp) || !is_of_v8(frame, memory)? {
        return None;
    }
    Some(Left { cfa: frame.wrapping_add(16), bp: memory.read_word(frame)? })
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

/// Whether the instructions around are those before `push %rbp`, or behind `pop %rbp`.
#[inline(always)]
fn has_no_frame(walk: &NativeWalk, memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(walk.pc.wrapping_sub(8))?;
    if walk.returned != 0 {
        return Some(memory.read_word(walk.pc.wrapping_sub(15))? & 0xffff == code::MOVABS_R12);
    }
    let next = memory.read_word(walk.pc)?;
    let [one, two, three] = [next & 0xff, next & 0xffff, next & 0xff_ffff];
    let begins = one == code::PUSH_RBP
        || three == code::MOV_RBX && next >> 32 & 0xffff == code::TESTB
        || two == code::TESTB && before >> 32 & 0xff_ffff == code::MOV_RBX
        || two == code::JNE && before >> 32 & 0xffff == code::TESTB
        || one == code::MOV_EBX && next >> 40 & 0xffff == code::MOVABS_R12
        || two == code::MOVABS_R12 && before >> 24 & 0xff == code::MOV_EBX
        || one == code::CALL && memory.read_word(walk.pc.wrapping_sub(10))? & 0xffff == code::MOVABS_R12;
    let ends = one == code::RET[0]
        || one == code::RET[1]
        || three == code::CMP_RCX && before >> 56 == code::POP_RBP
        || one == code::JG
            && before >> 24 & 0xff == code::POP_RBP
            && before >> 32 & 0xff_ffff == code::CMP_RCX;
    Some(begins || ends)
}

/// Whether code stands between `push %rbp` and `mov %rsp, %rbp`.
#[inline(always)]
fn has_pushed(walk: &NativeWalk, memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(walk.pc.wrapping_sub(8))?;
    let next = memory.read_word(walk.pc)?;
    Some(walk.returned == 0 && before >> 56 == code::PUSH_RBP && next & 0xff_ffff == code::MOV_RBP)
}

/// `lea …, %rsp`, or `push` and `ret`: the return address is in a register, while arguments are dropped.
#[inline(always)]
const fn drops_arguments(code: u64) -> bool {
    let is_lea = code & 0xf8 == 0x48 && code >> 8 & 0xff == 0x8d && code >> 16 & 0x38 == 0x20;
    let short = code & 0xfff8 == 0xc350;
    let long = code & 0xff_f8ff == 0xc3_5041;
    is_lea || short || long
}
