//! The number of the name of what is launched, without a lock for a name that the thread has launched before.
//!
//! CUPTI hands names out by address, and an address may come to mean another name when a module is unloaded: so a name that is known by
//! its address is compared before it is believed. Leaves out how names get to the tracer (`tally`, `ship`).

use crate::listen::tally;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};

/// What has no name: a copy, a graph.
pub(crate) const NAMELESS: u32 = u32::MAX;

thread_local! {
    static KNOWN: RefCell<HashMap<usize, (CString, u32)>> = RefCell::default();
}

/// The number by which the name at this address is sent to the tracer.
///
/// # Safety
/// `name` is null, or an address of text with its zero.
pub(crate) unsafe fn number_of(name: *const c_char) -> u32 {
    if name.is_null() {
        return NAMELESS;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(name) };
    let known = KNOWN.try_with(|known| {
        let mut known = known.borrow_mut();
        match known.get(&name.addr()) {
            Some((same, number)) if same.as_c_str() == text => *number,
            _ => {
                let number = text.to_str().map_or(NAMELESS, |text| tally().number(text));
                known.insert(name.addr(), (text.to_owned(), number));
                number
            }
        }
    });
    // A thread that ends has no table any more.
    known.unwrap_or(NAMELESS)
}
