//! Intel's ITT: its part in a program loads the library that `INTEL_LIBITTNOTIFY64` names and calls `__itt_api_init`, which puts functions of ours
//! in their places (`ittnotify_config.h`, `ittnotify_static.c`, ITT API 3.26). A task is a range: PyTorch's `emit_itt` makes one of each
//! operator and `record_function`, oneDNN one of each primitive. Without a tool it makes no names: we do. Leaves out frames, counters,
//! overlapped tasks and all else.

use super::label::{Label, MORE};
use super::{follow_forks, lock, pop, push};
use crate::guarded;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::{LazyLock, Mutex};

/// Functions that a program may have at the most, of which there are some hundred; domains and texts that are kept, each.
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

/// `__itt_domain`.
#[repr(C)]
struct Domain {
    /// 0: the program calls nothing for it.
    flags: c_int,
    name: *const c_char,
    rest: Rest,
}

/// `__itt_string_handle`.
#[repr(C)]
struct Text {
    chars: *const c_char,
    rest: Rest,
}

/// What both have behind: the name in wide letters, two reserved fields, the next one.
#[repr(C)]
struct Rest(*const c_void, c_int, *const c_void, *const c_void);

impl Rest {
    const NONE: Self = Self(std::ptr::null(), 0, std::ptr::null(), std::ptr::null());
}

/// Addresses of domains and texts by their names, each for good: programs keep them.
type Kept = Mutex<Option<HashMap<Vec<u8>, usize>>>;
static DOMAINS: Kept = Mutex::new(None);
static TEXTS: Kept = Mutex::new(None);
/// The name of those that find no room.
static OTHERS: LazyLock<Label> = LazyLock::new(|| Label::new(MORE.as_bytes()));

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
                b"__itt_domain_create" => domain_create as *const c_void,
                b"__itt_string_handle_create" => text_create as *const c_void,
                _ => function.none,
            };
            if !function.place.is_null() {
                *function.place = ours;
            }
        }
    }
}

unsafe extern "C" fn domain_create(name: *const c_char) -> *const Domain {
    // SAFETY: the caller's: a text of C.
    let label = unsafe { Label::from_chars(name) };
    kept(&DOMAINS, &label, |name| Domain { flags: 1, name, rest: Rest::NONE })
}

unsafe extern "C" fn text_create(name: *const c_char) -> *const Text {
    // SAFETY: as above.
    let label = unsafe { Label::from_chars(name) };
    kept(&TEXTS, &label, |chars| Text { chars, rest: Rest::NONE })
}

/// The address of what has this name, the same for the same one.
fn kept<T>(all: &Kept, label: &Label, make: impl FnOnce(*const c_char) -> T) -> *const T {
    let mut place = 0;
    guarded(|| {
        let Some(mut all) = lock(all) else { return };
        let all = all.get_or_insert_with(HashMap::new);
        let has_room = all.len() < MOST || all.contains_key(label.bytes());
        let label = if has_room { label } else { &*OTHERS };
        place = all.get(label.bytes()).copied().unwrap_or_else(|| {
            let name: &Label = if has_room { Box::leak(Box::new(*label)) } else { &OTHERS };
            std::ptr::from_mut(Box::leak(Box::new(make(name.address() as *const c_char)))) as usize
        });
        all.entry(label.bytes().to_vec()).or_insert(place);
    });
    place as *const T
}

/// A name that a program hands over.
///
/// # Safety
/// Null, a text of C, or what `kept` gave out.
unsafe fn label_of(chars: *const c_char) -> Label {
    if chars as u64 == OTHERS.address() {
        return *OTHERS;
    }
    // SAFETY: the caller's.
    unsafe { Label::from_chars(chars) }
}

unsafe extern "C" fn task_begin(domain: *const Domain, _id: Id, _parent: Id, name: *const Text) {
    // SAFETY: the caller's: both are null or ITT's own structures, with texts of C.
    let label = unsafe {
        let of_domain = domain.as_ref().map_or(Label::EMPTY, |domain| label_of(domain.name));
        let name = name.as_ref().map_or(Label::EMPTY, |name| label_of(name.chars));
        Label::within(&of_domain, name.bytes())
    };
    push(domain as usize, &label);
}

extern "C" fn task_end(domain: *const Domain) {
    pop(domain as usize);
}

#[cfg(test)]
mod tests {
    use super::{
        __itt_api_init, Function, Global, MORE, MOST, Text, domain_create, label_of, task_begin, task_end,
        text_create,
    };
    use std::collections::HashSet;
    use std::ffi::{CString, c_void};

    /// Tasks and their names come to us, everything else to what stands there without a tool.
    #[test]
    fn functions_are_put_in_place() {
        let none = 7 as *const c_void;
        let mut places = [std::ptr::null(); 5];
        let names = [
            c"__itt_task_begin",
            c"__itt_task_end",
            c"__itt_pause",
            c"__itt_domain_create",
            c"__itt_string_handle_create",
        ];
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
        let made = [domain_create as *const c_void, text_create as *const c_void];
        assert_eq!(places, [task_begin as *const c_void, task_end as *const c_void, none, made[0], made[1]]);
    }

    /// Names are kept, each once and up to a limit; the rest has the name of the rest, which a program's own does not have.
    #[test]
    fn names_are_made() {
        // SAFETY: texts of C, and what was made of them.
        unsafe {
            let make = |name: String| text_create(CString::new(name).unwrap().as_ptr());
            let name = |text: *const Text| label_of((*text).chars).bytes().to_vec();
            let step = make("step".to_owned());
            assert_eq!((make("step".to_owned()), name(step)), (step, b"step".to_vec()));
            assert_eq!(name(make(MORE.to_owned())), format!("\"{MORE}\"").into_bytes());
            let all: HashSet<_> = (0..2 * MOST).map(|number| make(number.to_string())).collect();
            assert!(all.len() < MOST, "{}", all.len());
            let last = make("another".to_owned());
            assert_eq!((last, name(last)), (make("one more".to_owned()), MORE.as_bytes().to_vec()));
            assert_eq!((make("step".to_owned()), name(step)), (step, b"step".to_vec()));
            let domain = domain_create(c"PyTorch".as_ptr());
            assert_eq!(((*domain).flags, domain), (1, domain_create(c"PyTorch".as_ptr())));
        }
    }
}
