//! Looking functions up by name, and the texts of errors. Addresses are those that the face of `libcuda.so.1` exports, as probes need them.

use super::{Code, INVALID_VALUE, NOT_FOUND, SUCCESS};
use crate::raw::{Handle, Out, Text, symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_ulonglong};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: c_ulonglong = 2;

/// Finds the newest version of a function that there is.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGetProcAddress_v2(
    name: Text,
    address: Out<Handle>,
    _cuda: c_int,
    flags: c_ulonglong,
    status: Out<c_int>,
) -> Code {
    let name = name.read();
    if name.is_empty() {
        return INVALID_VALUE;
    }
    let endings: &[&str] =
        if flags & PER_THREAD != 0 { &["_ptsz", "_v3", "_v2", ""] } else { &["_v3", "_v2", ""] };
    let named = endings.iter().filter_map(|ending| CString::new(format!("{name}{ending}")).ok());
    match named.into_iter().find_map(|name| symbol(c"libcuda.so.1", &name)) {
        Some(found) => {
            address.put(found);
            status.put(0);
            SUCCESS
        }
        None => {
            address.put(std::ptr::null_mut());
            // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
            status.put(1);
            NOT_FOUND
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGetProcAddress(
    name: Text,
    address: Out<Handle>,
    cuda: c_int,
    flags: c_ulonglong,
) -> Code {
    let mut status = 0;
    let place = &raw mut status;
    // SAFETY: `Out` is a pointer in the same form, and `status` outlives the call.
    let status_out = unsafe { std::mem::transmute::<*mut c_int, Out<c_int>>(place) };
    simgpu_cuGetProcAddress_v2(name, address, cuda, flags, status_out)
}

/// The name of an error.
pub(crate) fn error_name(code: Code) -> &'static CStr {
    match code {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        100 => c"CUDA_ERROR_NO_DEVICE",
        101 => c"CUDA_ERROR_INVALID_DEVICE",
        201 => c"CUDA_ERROR_INVALID_CONTEXT",
        400 => c"CUDA_ERROR_INVALID_HANDLE",
        401 => c"CUDA_ERROR_ILLEGAL_STATE",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        600 => c"CUDA_ERROR_NOT_READY",
        702 => c"CUDA_ERROR_LAUNCH_TIMEOUT",
        900 => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGetErrorName(code: Code, name: Out<*const c_char>) -> Code {
    name.put(error_name(code).as_ptr());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGetErrorString(code: Code, text: Out<*const c_char>) -> Code {
    text.put(error_name(code).as_ptr());
    SUCCESS
}
