//! Devices, versions, errors and memory of the runtime. Leaves out device properties.

use super::{DEVICE, LAST, driver, enter, in_context, remember};
use crate::driver::{Code, INVALID_DEVICE, NO_DEVICE, SUCCESS};
use crate::raw::{Handle, Out};
use crate::world::{self, CURRENT};
use std::ffi::{CStr, c_char, c_int, c_uint};

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaRuntimeGetVersion(version: Out<c_int>) -> Code {
    version.put(12_080);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaDriverGetVersion(version: Out<c_int>) -> Code {
    driver!(cuDriverGetVersion(version => Out<c_int>))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGetDeviceCount(count: Out<c_int>) -> Code {
    match driver!(cuInit(0 => c_uint)) {
        SUCCESS => driver!(cuDeviceGetCount(count => Out<c_int>)),
        _ => {
            count.put(0);
            remember(NO_DEVICE)
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaSetDevice(ordinal: c_int) -> Code {
    let code = driver!(cuInit(0 => c_uint));
    if code != SUCCESS {
        return remember(code);
    }
    let Ok(ordinal) = usize::try_from(ordinal) else { return remember(INVALID_DEVICE) };
    let code = enter(ordinal);
    if code == SUCCESS {
        DEVICE.set(ordinal);
    }
    remember(code)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGetDevice(ordinal: Out<c_int>) -> Code {
    ordinal.put(c_int::try_from(DEVICE.get()).unwrap_or(0));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaDeviceSynchronize() -> Code {
    in_context(|| driver!(cuCtxSynchronize()))
}

/// Waits, and drops the context of the thread's device.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaDeviceReset() -> Code {
    let Some(_world) = world::get() else { return SUCCESS };
    let code = driver!(cuCtxSynchronize());
    let _ = driver!(cuCtxDestroy_v2(crate::raw::handle(CURRENT.get()) => Handle));
    code
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMalloc(address: Out<u64>, bytes: usize) -> Code {
    in_context(|| driver!(cuMemAlloc_v2(address => Out<u64>, bytes => usize)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaFree(address: u64) -> Code {
    in_context(|| driver!(cuMemFree_v2(address => u64)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMallocHost(address: Out<Handle>, bytes: usize) -> Code {
    in_context(|| driver!(cuMemHostAlloc(address => Out<Handle>, bytes => usize, 0 => c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaFreeHost(address: Handle) -> Code {
    in_context(|| driver!(cuMemFreeHost(address => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGetLastError() -> Code {
    LAST.replace(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaPeekAtLastError() -> Code {
    LAST.get()
}

fn text(code: Code) -> &'static CStr {
    match code {
        SUCCESS => c"no error",
        NO_DEVICE => c"no CUDA-capable device is detected",
        3 => c"initialization error",
        98 => c"invalid device function",
        _ => c"a simulated error",
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGetErrorString(code: Code) -> *const c_char {
    text(code).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGetErrorName(code: Code) -> *const c_char {
    text(code).as_ptr()
}
