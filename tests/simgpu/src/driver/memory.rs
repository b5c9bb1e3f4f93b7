//! Memory: addresses that nothing lies behind. Leaves out contents.

use super::{Code, SUCCESS, on_world};
use crate::raw::{Handle, Out};
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Device addresses are given out upwards from here and never again.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(0x7_0000_0000_0000);

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemAlloc_v2(address: Out<u64>, bytes: usize) -> Code {
    on_world(|_| {
        let bytes = (bytes as u64).next_multiple_of(512).max(512);
        address.put(NEXT_ADDRESS.fetch_add(bytes, Relaxed));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemFree_v2(_address: u64) -> Code {
    on_world(|_| SUCCESS)
}

/// Host memory is real.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemHostAlloc(address: Out<Handle>, bytes: usize, _flags: c_uint) -> Code {
    on_world(|_| {
        // SAFETY: any size may be asked for.
        address.put(unsafe { libc::calloc(bytes.max(1), 1) });
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuMemFreeHost(address: *mut c_void) -> Code {
    // SAFETY: the caller frees what `cuMemHostAlloc` gave it, which came from `calloc`.
    unsafe { libc::free(address) };
    SUCCESS
}

/// Whether an address is one of a device's.
pub(super) fn is_device(address: u64) -> bool {
    (0x7_0000_0000_0000..NEXT_ADDRESS.load(Relaxed)).contains(&address)
}
