//! Where a scan for a return address begins, when code has no unwind information.
//!
//! Leaves out what it takes to believe one: `tracer_ebpf::native::scan`.

use super::maps::Scratch;
use super::sample::{native_world, push_native, repeat, scan_step, scratch};
use super::user_memory::UserMemory;
use core::ffi::c_void;
use tracer_ebpf::native::{self, SCAN_WORDS};
use tracer_ebpf::wire::end;

/// Looks for the return address of code without unwind information: on the stack that it put away if it did, then where `rsp` points.
#[inline(always)]
pub(super) fn scan(scratch: &mut Scratch) {
    let sp = scratch.walk.native.sp;
    if let Some(put_away) = native::stack_put_away(&scratch.walk.native, &UserMemory) {
        scratch.walk.native.sp = put_away;
        repeat(SCAN_WORDS, scan_step);
        if scratch_found() {
            return;
        }
    }
    restore(sp);
    repeat(SCAN_WORDS, scan_step);
    if !scratch_found() {
        scan_frame_pointer();
    }
}

/// Looks where a frame pointer says; a mark tells that a frame may be missing.
#[inline(always)]
fn scan_frame_pointer() {
    repeat(1, frame_pointer_step);
}

unsafe extern "C" fn frame_pointer_step(_index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &mut scratch.window);
    if let Some(found) = native::scan_frame_pointer(&scratch.walk.native, &mut tables, &memory) {
        scratch.walk.native = found;
        scratch.walk.found = 1;
        push_native(scratch, u64::from(end::NO_UNWIND_INFO), found.sp);
    }
    1
}

/// Whether a scan found a caller. Looked up anew, as in `walked`.
#[inline(always)]
fn scratch_found() -> bool {
    scratch().is_some_and(|scratch| scratch.walk.found != 0)
}

#[inline(always)]
fn restore(sp: u64) {
    if let Some(scratch) = scratch() {
        scratch.walk.native.sp = sp;
    }
}
