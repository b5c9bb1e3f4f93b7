//! NVTX: the headers in a program (version 3) load the library that `NVTX_INJECTION64_PATH` names and call `InitializeInjectionNvtx2`, which puts
//! functions of ours in the places of theirs (`nvtx3/nvtxDetail/nvtxTypes.h`, `nvtxInit.h`, NVTX 3.2). Leaves out marks, categories and names
//! of threads, and what ranges mean.

use super::label::{Label, MORE};
use super::{end, follow_forks, lock, pop, push, start};
use crate::guarded;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex};

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE`, `NVTX_CB_MODULE_CORE2`.
const CORE: c_int = 1;
const CORE2: c_int = 5;
/// Kinds of message: `NVTX_MESSAGE_TYPE_ASCII`, `…_UNICODE`, `…_REGISTERED`.
const ASCII: i32 = 1;
const UNICODE: i32 = 2;
const REGISTERED: i32 = 3;
/// Domains and registered texts that are kept, each.
const MOST: usize = 4096;

type Chars = *const c_char;
type Wide = *const libc::wchar_t;
type Function = *const c_void;
/// A text or a domain that was given out; null: none.
type Handle = *const Label;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Exports {
    bytes: usize,
    table_of: Option<unsafe extern "C" fn(c_int, *mut *mut *mut Function, *mut c_uint) -> c_int>,
}

/// `nvtxEventAttributes_v2`.
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_kind: i32,
    color: u32,
    payload_kind: i32,
    reserved: i32,
    payload: u64,
    message_kind: i32,
    message: *const c_void,
}

/// Domains and texts by their words, each for good: programs keep their addresses.
static DOMAINS: Mutex<Option<HashMap<Vec<u8>, &'static Label>>> = Mutex::new(None);
static TEXTS: Mutex<Option<HashMap<Vec<u8>, &'static Label>>> = Mutex::new(None);
/// In place of those that find no room.
static OTHERS: LazyLock<Label> = LazyLock::new(|| Label::new(MORE.as_bytes()));

/// What NVTX calls when a program uses it for the first time. 1: it goes on with our functions.
///
/// # Safety
/// `exports` gives out what `NvtxGetExportTableFunc_t` does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn InitializeInjectionNvtx2(
    exports: Option<unsafe extern "C" fn(u32) -> *const c_void>,
) -> c_int {
    let Some(exports) = exports else { return 0 };
    guarded(follow_forks);
    // SAFETY: the caller's; the table is NVTX's own, and lives as long as it.
    let exports = unsafe { exports(CALLBACKS).cast::<Exports>().as_ref() };
    let table_of = exports.filter(|exports| exports.bytes >= size_of::<Exports>()).and_then(|it| it.table_of);
    let Some(table_of) = table_of else { return 0 };
    let of_core: [(usize, Function); 8] = [
        (4, start_ex as Function),
        (5, start_chars as Function),
        (6, start_wide as Function),
        (7, range_end as Function),
        (8, push_ex as Function),
        (9, push_chars as Function),
        (10, push_wide as Function),
        (11, pop_default as Function),
    ];
    let of_domains: [(usize, Function); 8] = [
        (2, domain_start as Function),
        (3, domain_end as Function),
        (4, domain_push as Function),
        (5, domain_pop as Function),
        (10, register_chars as Function),
        (11, register_wide as Function),
        (12, domain_chars as Function),
        (13, domain_wide as Function),
    ];
    // SAFETY: the functions at these places have the types of ours.
    unsafe {
        put(table_of, CORE, &of_core);
        put(table_of, CORE2, &of_domains);
    }
    1
}

/// Puts functions into their places in a module's table.
///
/// # Safety
/// Each has the type that NVTX calls its place by.
unsafe fn put(
    table_of: unsafe extern "C" fn(c_int, *mut *mut *mut Function, *mut c_uint) -> c_int,
    module: c_int,
    functions: &[(usize, Function)],
) {
    let (mut table, mut places) = (std::ptr::null_mut(), 0);
    // SAFETY: NVTX's function, and room for what it gives out.
    if unsafe { table_of(module, &raw mut table, &raw mut places) } == 0 || table.is_null() {
        return;
    }
    for &(at, function) in functions.iter().filter(|(at, _)| *at < places as usize) {
        // SAFETY: the table has so many places; what stands there is where the function's address goes, or null.
        unsafe {
            let place = *table.add(at);
            if !place.is_null() {
                *place = function;
            }
        }
    }
}

unsafe extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    // SAFETY: the caller's, as NVTX asks for it; so in all functions below.
    unsafe { domain_push(std::ptr::null(), attributes) }
}

unsafe extern "C" fn push_chars(name: Chars) -> c_int {
    // SAFETY: as above.
    push(0, &unsafe { Label::from_chars(name) })
}

unsafe extern "C" fn push_wide(name: Wide) -> c_int {
    // SAFETY: as above.
    push(0, &unsafe { Label::from_wide(name) })
}

extern "C" fn pop_default() -> c_int {
    pop(0)
}

unsafe extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    // SAFETY: as above.
    unsafe { domain_start(std::ptr::null(), attributes) }
}

unsafe extern "C" fn start_chars(name: Chars) -> u64 {
    // SAFETY: as above.
    start(0, &unsafe { Label::from_chars(name) })
}

unsafe extern "C" fn start_wide(name: Wide) -> u64 {
    // SAFETY: as above.
    start(0, &unsafe { Label::from_wide(name) })
}

extern "C" fn range_end(number: u64) {
    end(number);
}

unsafe extern "C" fn domain_push(domain: Handle, attributes: *const Attributes) -> c_int {
    // SAFETY: as above.
    push(domain as usize, &unsafe { label(domain, attributes) })
}

extern "C" fn domain_pop(domain: Handle) -> c_int {
    pop(domain as usize)
}

unsafe extern "C" fn domain_start(domain: Handle, attributes: *const Attributes) -> u64 {
    // SAFETY: as above.
    start(domain as usize, &unsafe { label(domain, attributes) })
}

extern "C" fn domain_end(_domain: Handle, number: u64) {
    end(number);
}

unsafe extern "C" fn domain_chars(name: Chars) -> Handle {
    // SAFETY: as above.
    kept(&DOMAINS, &unsafe { Label::from_chars(name) })
}

unsafe extern "C" fn domain_wide(name: Wide) -> Handle {
    // SAFETY: as above.
    kept(&DOMAINS, &unsafe { Label::from_wide(name) })
}

unsafe extern "C" fn register_chars(_domain: Handle, text: Chars) -> Handle {
    // SAFETY: as above.
    kept(&TEXTS, &unsafe { Label::from_chars(text) })
}

unsafe extern "C" fn register_wide(_domain: Handle, text: Wide) -> Handle {
    // SAFETY: as above.
    kept(&TEXTS, &unsafe { Label::from_wide(text) })
}

/// What a range is called: its domain's name and its message.
unsafe fn label(domain: Handle, attributes: *const Attributes) -> Label {
    // SAFETY: a domain is null or was given out by `kept`, and attributes are null or NVTX's structure, of as many bytes as it says.
    let (domain, attributes) = unsafe { (domain.as_ref().unwrap_or(&Label::EMPTY), attributes.as_ref()) };
    let whole = attributes.filter(|attributes| usize::from(attributes.bytes) >= size_of::<Attributes>());
    let Some(&Attributes { message_kind, message, .. }) = whole else { return *domain };
    // SAFETY: the message is what its kind says.
    let name = unsafe {
        match message_kind {
            ASCII => Label::from_chars(message.cast()),
            UNICODE => Label::from_wide(message.cast()),
            REGISTERED => message.cast::<Label>().as_ref().copied().unwrap_or(Label::EMPTY),
            _ => Label::EMPTY,
        }
    };
    Label::within(domain, name.bytes())
}

/// The address of a text for as long as the program lives, the same for the same text.
fn kept(all: &Mutex<Option<HashMap<Vec<u8>, &'static Label>>>, text: &Label) -> Handle {
    let mut place: Handle = std::ptr::null();
    guarded(|| {
        place = &raw const *OTHERS;
        let Some(mut all) = lock(all) else { return };
        let all = all.get_or_insert_with(HashMap::new);
        if let Some(&known) = all.get(text.bytes()) {
            place = known;
        } else if all.len() < MOST {
            let new = Box::leak(Box::new(*text));
            all.insert(text.bytes().to_vec(), new);
            place = new;
        }
    });
    place
}

#[cfg(test)]
mod tests {
    use super::{
        ASCII, Attributes, CALLBACKS, CORE, CORE2, Exports, Function, Handle, InitializeInjectionNvtx2,
        Label, MORE, MOST, REGISTERED, domain_chars, domain_pop, domain_push, kept, label, register_chars,
    };
    use std::collections::{HashMap, HashSet};
    use std::ffi::{c_int, c_uint, c_void};
    use std::sync::Mutex;

    /// As NVTX's: in each table every place but the first and every third is to be filled.
    struct Tables([[usize; 16]; 2]);

    static TABLES: Mutex<Tables> = Mutex::new(Tables([[0; 16]; 2]));

    unsafe extern "C" fn table_of(module: c_int, out: *mut *mut *mut Function, places: *mut c_uint) -> c_int {
        if ![CORE, CORE2].contains(&module) {
            return 0;
        }
        let mut tables = TABLES.lock().unwrap();
        let table = &mut tables.0[usize::from(module == CORE2)];
        let rows: Vec<*mut Function> = table
            .iter_mut()
            .enumerate()
            .map(|(at, place)| if at == 0 { std::ptr::null_mut() } else { std::ptr::from_mut(place).cast() })
            .collect();
        // SAFETY: the caller's.
        unsafe {
            *out = rows.leak().as_mut_ptr();
            *places = if module == CORE { 16 } else { 12 };
        }
        1
    }

    unsafe extern "C" fn exports(what: u32) -> *const c_void {
        static EXPORTS: Exports = Exports { bytes: size_of::<Exports>(), table_of: Some(table_of) };
        if what == CALLBACKS { (&raw const EXPORTS).cast() } else { std::ptr::null() }
    }

    unsafe extern "C" fn nothing(_: u32) -> *const c_void {
        std::ptr::null()
    }

    /// Functions for ranges, domains and texts are put into their places, within the tables' sizes; what gives out no table is refused.
    #[test]
    fn functions_are_put_in_place() {
        // SAFETY: these give out what NVTX does.
        unsafe {
            assert_eq!(InitializeInjectionNvtx2(None), 0);
            assert_eq!(InitializeInjectionNvtx2(Some(nothing)), 0);
            assert_eq!(InitializeInjectionNvtx2(Some(exports)), 1);
        }
        let filled = |table: &[usize]| -> Vec<usize> {
            table.iter().enumerate().filter(|(_, function)| **function != 0).map(|(at, _)| at).collect()
        };
        let tables = TABLES.lock().unwrap();
        assert_eq!(filled(&tables.0[0]), [4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(filled(&tables.0[1]), [2, 3, 4, 5, 10, 11], "the table ends before the others");
    }

    fn attributes(message_kind: i32, message: *const c_void) -> Attributes {
        Attributes {
            version: 3,
            bytes: 48,
            category: 0,
            color_kind: 0,
            color: 0,
            payload_kind: 0,
            reserved: 0,
            payload: 0,
            message_kind,
            message,
        }
    }

    /// A range has its domain's name and its message, whatever kind of text that is; a structure that is too short has none.
    #[test]
    fn names_of_ranges() {
        assert_eq!(size_of::<Attributes>(), 48);
        // SAFETY: all are texts, or were given out.
        unsafe {
            let domain = domain_chars(c"Loader".as_ptr());
            assert_eq!(domain, domain_chars(c"Loader".as_ptr()));
            let read = attributes(ASCII, c"read".as_ptr().cast());
            let text = |domain, attributes: &Attributes| {
                String::from_utf8(label(domain, attributes).bytes().to_vec()).unwrap()
            };
            assert_eq!(text(domain, &read), "Loader:read");
            assert_eq!(text(std::ptr::null(), &read), "read");
            let registered = attributes(REGISTERED, register_chars(domain, c"kept".as_ptr()).cast());
            assert_eq!(text(domain, &registered), "Loader:kept");
            assert_eq!(text(domain, &attributes(REGISTERED, std::ptr::null())), "Loader:");
            assert_eq!(text(domain, &Attributes { bytes: 40, ..read }), "Loader");
            let depth = std::thread::spawn(move || {
                let domain = domain_chars(c"Loader".as_ptr());
                (domain_push(domain, std::ptr::null()), domain_pop(std::ptr::null()), domain_pop(domain))
            });
            assert_eq!(depth.join().unwrap(), (0, -1, 0));
        }
    }

    /// Endless names are kept up to a limit; what is beyond it has the name of the rest.
    #[test]
    fn endless_names() {
        static ALL: Mutex<Option<HashMap<Vec<u8>, &'static Label>>> = Mutex::new(None);
        let handles =
            (0..3 * MOST).map(|number| kept(&ALL, &Label::new(format!("name {number}").as_bytes())));
        let distinct: HashSet<Handle> = handles.collect();
        assert_eq!((distinct.len(), distinct.contains(&std::ptr::null())), (MOST + 1, false));
        // SAFETY: it was given out just now.
        let last = unsafe { *kept(&ALL, &Label::new(b"another")) };
        assert_eq!(last.bytes(), MORE.as_bytes());
    }
}
