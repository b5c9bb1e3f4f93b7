//! Copies and sets. Their bytes are counted and never moved. Leaves out two and three dimensions, peers, and managed memory.

use super::memory::is_device;
use super::{Code, INVALID_CONTEXT, code, on_world, stream};
use crate::calls::{Call, called};
use crate::clock::wait_until;
use crate::raw::Handle;
use crate::world::{Outcome, Work};
use std::ffi::{c_uchar, c_uint};

fn copy(call: Call, kind: &'static str, bytes: usize, handle: Handle) -> Code {
    on_world(|world| {
        let Some(stream) = stream(world, handle, false) else { return INVALID_CONTEXT };
        called(call, None, 0, |correlation| {
            let outcome = world.submit(stream, Work::Copy { kind, bytes: bytes as u64 }, correlation);
            (code(outcome.as_ref()), outcome.into_iter().collect())
        })
    })
}

/// A copy that the caller waits for.
fn copy_now(call: Call, kind: &'static str, bytes: usize, handle: Handle) -> Code {
    on_world(|world| {
        let Some(stream) = stream(world, handle, false) else { return INVALID_CONTEXT };
        called(call, None, 0, |correlation| {
            let outcome = world.submit(stream, Work::Copy { kind, bytes: bytes as u64 }, correlation);
            if let Some(Outcome::Ran(launch, _)) = &outcome {
                wait_until(launch.end_ns, world.place.scenario.spin);
            }
            (code(outcome.as_ref()), outcome.into_iter().collect())
        })
    })
}

fn direction(to: u64, from: u64) -> &'static str {
    match (is_device(to), is_device(from)) {
        (true, true) => "d2d",
        (false, true) => "d2h",
        _ => "h2d",
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyHtoDAsync_v2(_to: u64, _from: u64, bytes: usize, stream: Handle) -> Code {
    copy(Call::CopyHtoDAsync, "h2d", bytes, stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyDtoHAsync_v2(_to: u64, _from: u64, bytes: usize, stream: Handle) -> Code {
    // As if the memory were not pinned: then the driver waits.
    copy_now(Call::CopyDtoHAsync, "d2h", bytes, stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyDtoDAsync_v2(_to: u64, _from: u64, bytes: usize, stream: Handle) -> Code {
    copy(Call::CopyDtoDAsync, "d2d", bytes, stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    copy(Call::CopyAsync, direction(to, from), bytes, stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyHtoD_v2(_to: u64, _from: u64, bytes: usize) -> Code {
    copy_now(Call::CopyHtoD, "h2d", bytes, std::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpyDtoH_v2(_to: u64, _from: u64, bytes: usize) -> Code {
    copy_now(Call::CopyDtoH, "d2h", bytes, std::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemcpy(to: u64, from: u64, bytes: usize) -> Code {
    copy_now(Call::Copy, direction(to, from), bytes, std::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemsetD8Async(_to: u64, _value: c_uchar, bytes: usize, stream: Handle) -> Code {
    copy(Call::SetD8Async, "memset", bytes, stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemsetD32Async(_to: u64, _value: c_uint, words: usize, stream: Handle) -> Code {
    copy(Call::SetD32Async, "memset", words.saturating_mul(4), stream)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemsetD8_v2(to: u64, value: c_uchar, bytes: usize) -> Code {
    simgpu_cuMemsetD8Async(to, value, bytes, std::ptr::null_mut())
}
