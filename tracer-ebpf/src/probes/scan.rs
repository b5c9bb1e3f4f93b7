//! Where a scan for a return address begins, when code has no unwind information.
//!
//! Leaves out what it takes to believe one: `tracer_ebpf::native::scan`.

use super::maps::Scratch;
use super::native_walk::{native_world, push_native, scan_step};
use super::sample::{repeat, scratch};
use super::user_memory::UserMemory;
use tracer_ebpf::native::{self, SCAN_WORDS};
use tracer_ebpf::wire::end;

/// Looks for the return address of code without unwind information: on the stack that it put away if it did, on its own, then where `rbp`
/// points.
#[inline(always)]
pub(super) fn scan(scratch: &mut Scratch) {
    let sp = scratch.walk.native.sp;
    if let Some(put_away) = native::stack_put_away(&scratch.walk.native, &UserMemory) {
        scratch.walk.native.sp = put_away;
        if repeat(SCAN_WORDS, |word| scan_step(word)) {
            return;
        }
    }
    restore(sp);
    if !repeat(SCAN_WORDS, |word| scan_step(word)) {
        scan_frame_pointer();
    }
}

/// Looks where a frame pointer says; a mark tells that a frame may be missing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn scan_frame_pointer() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &scratch.window);
    let Some(found) = native::scan_frame_pointer(&scratch.walk.native, &mut tables, &memory) else {
        return 0;
    };
    scratch.walk.native = found;
    scratch.walk.found = 1;
    push_native(scratch, u64::from(end::NO_UNWIND_INFO), found.sp);
    1
}

#[inline(always)]
fn restore(sp: u64) {
    if let Some(scratch) = scratch() {
        scratch.walk.native.sp = sp;
    }
}
