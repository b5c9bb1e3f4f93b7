//! Ranges of our own Python modules (`energy_trace.range`, PyTorch's `record_function`), by functions that `ctypes` calls.
//!
//! Leaves out what ranges mean.

use super::label::Label;
use super::{end, follow_forks, paths, pop, push, start, thread};
use crate::guarded;
use std::ffi::c_char;

/// A recording of this process has begun, maybe one of many: it is told what was told before.
#[unsafe(no_mangle)]
extern "C" fn energy_trace_recorded() {
    guarded(|| {
        follow_forks();
        thread::next_recording();
        paths::tell_again();
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn energy_trace_push(name: *const c_char) {
    // SAFETY: the caller's: a text of C; so below.
    push(0, &unsafe { Label::from_chars(name) });
}

#[unsafe(no_mangle)]
extern "C" fn energy_trace_pop() {
    pop(0);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn energy_trace_start(name: *const c_char) -> u64 {
    // SAFETY: as above.
    start(0, &unsafe { Label::from_chars(name) })
}

#[unsafe(no_mangle)]
extern "C" fn energy_trace_end(number: u64) {
    end(number);
}
