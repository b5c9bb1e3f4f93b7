//! Streams, events, copies and sets of the runtime. Leaves out what the driver's part leaves out.

use super::{driver, in_context, outer};
use crate::driver::{Code, INVALID_VALUE};
use crate::raw::{Handle, Out};
use std::ffi::{c_int, c_uchar, c_uint};

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamCreate(stream: Out<Handle>) -> Code {
    simgpu_cudaStreamCreateWithFlags(stream, 0)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamCreateWithFlags(stream: Out<Handle>, flags: c_uint) -> Code {
    in_context(|| driver!(cuStreamCreate(stream => Out<Handle>, flags => c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamCreateWithPriority(
    stream: Out<Handle>,
    flags: c_uint,
    _priority: c_int,
) -> Code {
    simgpu_cudaStreamCreateWithFlags(stream, flags)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamDestroy(stream: Handle) -> Code {
    in_context(|| driver!(cuStreamDestroy_v2(stream => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamSynchronize(stream: Handle) -> Code {
    in_context(|| driver!(cuStreamSynchronize(stream => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamSynchronize_ptsz(stream: Handle) -> Code {
    in_context(|| driver!(cuStreamSynchronize_ptsz(stream => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamQuery(stream: Handle) -> Code {
    in_context(|| driver!(cuStreamQuery(stream => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Code {
    in_context(|| driver!(cuStreamWaitEvent(stream => Handle, event => Handle, flags => c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventCreate(event: Out<Handle>) -> Code {
    simgpu_cudaEventCreateWithFlags(event, 0)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventCreateWithFlags(event: Out<Handle>, flags: c_uint) -> Code {
    in_context(|| driver!(cuEventCreate(event => Out<Handle>, flags => c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventDestroy(event: Handle) -> Code {
    in_context(|| driver!(cuEventDestroy_v2(event => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventRecord(event: Handle, stream: Handle) -> Code {
    in_context(|| driver!(cuEventRecord(event => Handle, stream => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventSynchronize(event: Handle) -> Code {
    in_context(|| driver!(cuEventSynchronize(event => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventQuery(event: Handle) -> Code {
    in_context(|| driver!(cuEventQuery(event => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) -> Code {
    in_context(|| driver!(cuEventElapsedTime(milliseconds => Out<f32>, start => Handle, end => Handle)))
}

/// `cudaMemcpyKind`: 1 to the device, 2 to the host, 3 on the device, 4 by the addresses; on the host (0) nothing is simulated.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMemcpyAsync(to: u64, from: u64, bytes: usize, kind: c_int, stream: Handle) -> Code {
    in_context(|| {
        outer(|| match kind {
            1 => driver!(cuMemcpyHtoDAsync_v2(to => u64, from => u64, bytes => usize, stream => Handle)),
            2 => driver!(cuMemcpyDtoHAsync_v2(to => u64, from => u64, bytes => usize, stream => Handle)),
            3 => driver!(cuMemcpyDtoDAsync_v2(to => u64, from => u64, bytes => usize, stream => Handle)),
            4 => driver!(cuMemcpyAsync(to => u64, from => u64, bytes => usize, stream => Handle)),
            _ => INVALID_VALUE,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMemcpy(to: u64, from: u64, bytes: usize, kind: c_int) -> Code {
    in_context(|| {
        outer(|| match kind {
            1 => driver!(cuMemcpyHtoD_v2(to => u64, from => u64, bytes => usize)),
            2 => driver!(cuMemcpyDtoH_v2(to => u64, from => u64, bytes => usize)),
            3 | 4 => driver!(cuMemcpy(to => u64, from => u64, bytes => usize)),
            _ => INVALID_VALUE,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMemsetAsync(to: u64, value: c_int, bytes: usize, stream: Handle) -> Code {
    let value = c_uchar::try_from(value & 0xff).unwrap_or(0);
    in_context(|| {
        outer(|| driver!(cuMemsetD8Async(to => u64, value => c_uchar, bytes => usize, stream => Handle)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaMemset(to: u64, value: c_int, bytes: usize) -> Code {
    simgpu_cudaMemsetAsync(to, value, bytes, std::ptr::null_mut())
}
