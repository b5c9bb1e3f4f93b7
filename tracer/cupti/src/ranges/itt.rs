//! Intel's ITT: its part in a program loads the library that `INTEL_LIBITTNOTIFY64` names and calls `__itt_api_init`, which puts functions of ours
//! in their places (`ittnotify_config.h`, `ittnotify_static.c`, ITT API 3.26). A task is a range: PyTorch's `emit_itt` makes one of each
//! operator and `record_function`, oneDNN one of each primitive. Leaves out frames, counters, overlapped tasks and all else.

use super::label::Label;
use super::{follow_forks, pop, push};
use crate::guarded;
use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};

/// Functions that a program may have at the most: there are some hundred.
const MOST: usize = 4096;

/// The begin of `__itt_global`.
#[repr(C)]
struct Global {
    magic: [u8; 8],
    version: [c_ulong; 3],
    is_initialized: c_long,
    mutex_is_initialized: c_long,
    counter: c_long,
    mutex: libc::pthread_mutex_t,
    library: *mut c_void,
    error_handler: *mut c_void,
    paths: *mut c_void,
    functions: *const Function,
}

/// `__itt_api_info`; one without a name is behind the last.
#[repr(C)]
struct Function {
    name: *const c_char,
    place: *mut *const c_void,
    first: *const c_void,
    /// What stands there without a tool.
    none: *const c_void,
    group: c_int,
}

/// The begin of `__itt_domain`.
#[repr(C)]
struct Domain {
    flags: c_int,
    name: *const c_char,
}

/// The begin of `__itt_string_handle`.
#[repr(C)]
struct Text {
    chars: *const c_char,
}

/// `__itt_id`.
#[repr(C)]
struct Id([u64; 3]);

/// What ITT calls when a program uses it for the first time.
///
/// # Safety
/// `global` is null or ITT's own.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __itt_api_init(global: *const c_void, _groups: c_int) {
    guarded(follow_forks);
    // SAFETY: the caller's: there is a list, which ends with a function that has no name.
    unsafe {
        let Some(global) = global.cast::<Global>().as_ref() else { return };
        for at in 0..MOST {
            let Some(function) = global.functions.add(at).as_ref().filter(|it| !it.name.is_null()) else {
                return;
            };
            let ours = match CStr::from_ptr(function.name).to_bytes() {
                b"__itt_task_begin" => task_begin as *const c_void,
                b"__itt_task_end" => task_end as *const c_void,
                _ => function.none,
            };
            if !function.place.is_null() {
                *function.place = ours;
            }
        }
    }
}

unsafe extern "C" fn task_begin(domain: *const Domain, _id: Id, _parent: Id, name: *const Text) {
    // SAFETY: the caller's: both are null or ITT's own structures, with texts of C.
    let label = unsafe {
        let of_domain = domain.as_ref().map_or(Label::EMPTY, |domain| Label::from_chars(domain.name));
        let name = name.as_ref().map_or(Label::EMPTY, |name| Label::from_chars(name.chars));
        Label::within(&of_domain, name.bytes())
    };
    push(domain as usize, &label);
}

extern "C" fn task_end(domain: *const Domain) {
    pop(domain as usize);
}

#[cfg(test)]
mod tests {
    use super::{__itt_api_init, Function, Global, task_begin, task_end};
    use std::ffi::c_void;

    /// Tasks come to us, everything else to what stands there without a tool.
    #[test]
    fn functions_are_put_in_place() {
        let none = 7 as *const c_void;
        let mut places = [std::ptr::null(); 3];
        let names = [c"__itt_task_begin", c"__itt_task_end", c"__itt_pause"];
        let mut functions: Vec<Function> = (names.iter().zip(&mut places))
            .map(|(name, place)| Function { name: name.as_ptr(), place, first: none, none, group: 0 })
            .collect();
        let end =
            Function { name: std::ptr::null(), place: std::ptr::null_mut(), first: none, none, group: 0 };
        functions.push(end);
        // SAFETY: zeros are a value of all its fields.
        let mut global: Global = unsafe { std::mem::zeroed() };
        global.functions = functions.as_ptr();
        // SAFETY: a list that ends.
        unsafe {
            __itt_api_init(std::ptr::null(), 0);
            __itt_api_init((&raw const global).cast(), 0);
        }
        assert_eq!(places, [task_begin as *const c_void, task_end as *const c_void, none]);
    }
}
