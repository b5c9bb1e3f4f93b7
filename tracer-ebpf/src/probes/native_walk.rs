//! The native part of a sample: walks by row tables from the user registers on, and bridges gaps.
//!
//! Leaves out what a rule is (`tracer_ebpf::native`) and how it is found (`tables.rs`).

use super::cached_tables::CachedTables;
use super::maps::{current, settings};
use super::open_calls::wait_returns_to;
use super::raw;
use super::registers::user_registers;
use super::scan;
use super::scratch::{MAX_ANCHORS, STEPS, Scratch, Walks, repeat, scratch, walked};
use super::user_memory::{StackMemory, UserMemory};
use super::user_window::Window;
use tracer_ebpf::memory::Memory as _;
use tracer_ebpf::native::{self, MAX_RECOVERED, NativeWalk, place};
use tracer_ebpf::rows::Rule;
use tracer_ebpf::unwind_row_cache::UnwindRowCache;
use tracer_ebpf::wire::{MAX_FRAMES, NATIVE_WORDS, SAMPLE_WORDS, SPARE_WORDS, end, register};

/// Native frames; why they end. A walk that ends early goes on where it can: `recover`.
/// Like all functions here that have a global name the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn native_frames() -> u32 {
    u32::from(frames())
}

#[inline(always)]
fn frames() -> u8 {
    let Some(begun) = scratch() else { return end::NOTHING };
    if let Err(code) = begin(&mut begun.walk) {
        return code;
    }
    if register::runs_32_bits(&begun.walk.registers) {
        push_native(begun, begun.walk.native.pc, 0);
        return end::BITS_32;
    }
    if settings().unwind_user != 0 || !begun.walk.process.has_tables() {
        push_native(begun, begun.walk.native.pc, 0);
        return end::NOT_READY;
    }
    begun.walk.lowest = begun.walk.native.sp;
    begun.walk.scanned = 0;
    begun.window.clear();
    begun.walk.anchor = 0;
    let mut code = end::NOTHING;
    for _ in 0..=MAX_RECOVERED {
        code = walk_native() as u8;
        if matches!(code, end::COMPLETE | end::TOO_DEEP) {
            break;
        }
        match recover_native(u32::from(code)) as u8 {
            end::RUNNING => (),
            ended => {
                code = ended;
                break;
            }
        }
    }
    if code == end::FAULT { why_fault() } else { code }
}

/// A walk that could not even read the top of its stack found no memory to read at all.
#[inline(always)]
fn why_fault() -> u8 {
    let first = scratch().is_some_and(|scratch| scratch.head.native <= 1);
    let top = scratch().map_or(0, |scratch| scratch.walk.lowest);
    if first && UserMemory.read_word(top).is_none() { end::UNREADABLE } else { end::FAULT }
}

/// Walks until the walk ends; why it does.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_native() -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    scratch.head.native_end = end::RUNNING;
    repeat(MAX_FRAMES / STEPS, |_| native_step());
    u32::from(walked(|head| head.native_end))
}

/// Bridges a gap where it can: `RUNNING`; else why the walk ends.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn recover_native(code: u32) -> u32 {
    u32::from(recover(code as u8))
}

/// Bridges a gap: by the return address of code without unwind information, else at the interpreter's next frame.
#[inline(always)]
fn recover(code: u8) -> u8 {
    let Some(before) = scratch() else { return code };
    if code == end::UNMAPPED && leave_trampoline(before) {
        return end::RUNNING;
    }
    if is_full(before) {
        return code;
    }
    let mut bridged = false;
    if code == end::NO_UNWIND_INFO {
        match scan::scan(before) {
            end::NO_UNWIND_INFO => (),
            end::RUNNING => bridged = true,
            ended => return ended,
        }
    } else if raw::is_left_to_user_space(code) {
        return code;
    }
    let Some(now) = scratch() else { return code };
    if !bridged && !resume(now, code) {
        return code;
    }
    now.head.recovered = now.head.recovered.saturating_add(1);
    end::RUNNING
}

/// Goes on behind the trampoline that a probe on a wait's return has put in place of the return address; says whether it was that.
#[inline(always)]
fn leave_trampoline(scratch: &mut Scratch) -> bool {
    if settings().gpu == 0 || scratch.walk.native.returned == 0 {
        return false;
    }
    let (_, tid) = current();
    let Some(returns_to) = wait_returns_to(tid, scratch.walk.native.sp) else { return false };
    scratch.walk.native.pc = returns_to;
    // It was taken for a frame.
    scratch.walk.cursor = scratch.walk.cursor.wrapping_sub(NATIVE_WORDS as u64);
    scratch.head.native = scratch.head.native.wrapping_sub(1);
    true
}

/// Goes on at the first interpreter frame above the stack pointer.
#[inline(always)]
fn resume(scratch: &mut Scratch, code: u8) -> bool {
    if scratch.walk.layout.eval_cfa == 0 || scratch.head.python == 0 {
        return false;
    }
    let mut anchor = 0;
    for _ in 0..MAX_ANCHORS {
        let at = scratch.walk.anchor as usize & (MAX_ANCHORS - 1);
        anchor = scratch.walk.anchors[at];
        if anchor == 0 || anchor > scratch.walk.native.sp {
            break;
        }
        scratch.walk.anchor += 1;
    }
    if anchor <= scratch.walk.native.sp {
        return false;
    }
    let Some(walk) = native::resume(anchor, &scratch.walk.layout, &UserMemory) else { return false };
    scratch.walk.native = walk;
    push_native(scratch, u64::from(code), walk.sp);
    true
}

/// Where the walk begins; why it cannot.
#[inline(always)]
fn begin(walk: &mut Walks) -> Result<(), u8> {
    user_registers(&mut walk.registers, walk.kernel_sp)?;
    walk.native = NativeWalk {
        pc: walk.registers[register::PC],
        sp: walk.registers[register::SP],
        fp: walk.registers[register::FP],
        returned: 0,
        callee_saved_at: place::INTERRUPTED,
        others_at: place::INTERRUPTED,
    };
    Ok(())
}

/// A register of the code that was interrupted, by DWARF's number.
#[inline(always)]
pub(crate) fn interrupted_register(number: u32) -> Option<u64> {
    scratch()?.walk.registers.get(register::of_dwarf(number)).copied()
}

/// Takes frames; 1 at the end of the walk.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn native_step() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    if is_full(scratch) {
        return 1;
    }
    for _ in 0..STEPS {
        let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
        let (frame, code) = native::step(&mut scratch.walk.native, &mut tables, &memory);
        push_native(scratch, frame.pc, frame.cfa);
        if code != end::RUNNING {
            scratch.head.native_end = code;
            return 1;
        }
    }
    0
}

/// What the native walk reads, in parts of the scratch.
#[inline(always)]
pub(super) fn native_world<'a>(
    walk: &Walks,
    cache: &'a mut UnwindRowCache,
    window: &Window,
) -> (CachedTables<'a>, StackMemory) {
    let tables = CachedTables { generation: walk.tables.generation(), cache };
    (tables, StackMemory { window })
}

/// Whether no more frames fit: the walk ends as too deep.
#[inline(always)]
pub(super) fn is_full(scratch: &Scratch) -> bool {
    scratch.walk.cursor >= (SAMPLE_WORDS - SPARE_WORDS) as u64
}

#[inline(always)]
pub(super) fn push_native(scratch: &mut Scratch, pc: u64, cfa: u64) {
    let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
    scratch.words[at] = pc;
    scratch.words[at + 1] = cfa;
    scratch.walk.cursor = (at + NATIVE_WORDS) as u64;
    scratch.head.native += 1;
}

/// Moves `Walks::trial` to its caller; an `end` code.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn trial_step() -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    u32::from(native::step(&mut scratch.walk.trial, &mut tables, &memory).1)
}

/// Moves `Walks::rare` to its caller by a rule that few frames have; an `end` code. It reads word by word: a
/// window would be more for the verifier to look at than for these frames to gain.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn rare_step(rule: u32) -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    let mut tables = CachedTables { generation: 0, cache: &mut scratch.rules };
    let moved = native::rare_caller(&mut scratch.walk.rare, Rule(rule), &mut tables, &UserMemory);
    u32::from(moved.err().unwrap_or(end::RUNNING))
}
