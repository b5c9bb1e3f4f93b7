//! Pointers that a C caller hands over, and what may be done with them. The one place that trusts the caller.
//!
//! A caller of CUDA or NVML promises that such a pointer is null or valid for its type during the call; with that promise broken the real
//! libraries crash as well. Leaves out every meaning.

use std::ffi::{CStr, c_char, c_void};

/// A place for a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result, unless the caller wants none.
    pub(crate) fn put(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller has promised that it is writable (see the file's head).
            unsafe { self.0.write(value) };
        }
    }

    /// Writes a result at a place of an array, which the caller has promised to be that long.
    pub(crate) fn put_at(&self, place: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `put`, for an array of more than `place` elements.
            unsafe { self.0.add(place).write(value) };
        }
    }

    /// Where it is, as a number that a reader may make a pointer of again.
    pub(crate) fn address(&self) -> usize {
        self.0.expose_provenance()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> Out<T> {
    /// What stands there now.
    pub(crate) fn get(&self) -> Option<T> {
        // SAFETY: not null, and the caller has promised that it is initialised where a call reads it too.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// An element of an array that the caller has promised to be that long.
    pub(crate) fn get_at(&self, place: usize) -> Option<T> {
        // SAFETY: as in `get`.
        (!self.0.is_null()).then(|| unsafe { self.0.add(place).read_unaligned() })
    }
}

impl Out<c_char> {
    /// Writes text with its zero; false when it does not fit.
    pub(crate) fn put_text(&self, length: usize, text: &str) -> bool {
        if self.0.is_null() || text.len() >= length {
            return false;
        }
        // SAFETY: not null, `length` bytes are promised, and the text with its zero is not longer.
        unsafe {
            self.0.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            self.0.add(text.len()).write(0);
        }
        true
    }
}

/// Text with a zero at its end.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text; of a null pointer, an empty one.
    pub(crate) fn read(&self) -> String {
        self.bytes().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Its bytes, for as long as the call lasts.
    pub(crate) fn bytes(&self) -> Option<&CStr> {
        // SAFETY: not null, and the caller has promised text with its zero (see the file's head).
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

/// An opaque handle: a number of ours where the real library has a pointer.
pub(crate) type Handle = *mut c_void;

/// A number as a handle.
pub(crate) fn handle(number: u64) -> Handle {
    std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

/// A handle as a number.
pub(crate) fn number(handle: Handle) -> u64 {
    handle.addr() as u64
}

/// Looks a symbol up in a library that is loaded, or loads it. The address stays valid, for libraries are never closed here.
pub(crate) fn symbol(library: &CStr, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: both are texts with their zero; loading one of our own faces runs no code of it.
    let address = unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        libc::dlsym(library, name.as_ptr())
    };
    (!address.is_null()).then_some(address)
}
