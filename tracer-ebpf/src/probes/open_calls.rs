//! Calls of GPU libraries that have not returned.
//!
//! Leaves out who opens and closes them (`gpu.rs`).

use aya_ebpf::macros::map;
use aya_ebpf::maps::LruHashMap;
use tracer_ebpf::arch::frame::PUSHED_BY_CALL;
use tracer_ebpf::gpu::call;

/// A call that has not returned.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct OpenCall {
    pub(super) since_ns: u64,
    pub(super) a: u64,
    pub(super) b: u64,
    /// Where its return address lies, and what it was before the kernel put the address of its own trampoline there.
    pub(super) at: u64,
    pub(super) returns_to: u64,
}

/// By thread and function.
#[map]
pub(super) static OPEN_CALLS: LruHashMap<u64, OpenCall> = LruHashMap::with_max_entries(16384, 0);

/// Where a thread that waits returns to, if the trampoline stands right below this stack pointer in place of that.
#[inline(always)]
pub(super) fn wait_returns_to(tid: u32, sp: u64) -> Option<u64> {
    let key = u64::from(tid) << 8 | u64::from(call::WAIT);
    // SAFETY: the values are copied at once; the thread is here.
    let open = unsafe { OPEN_CALLS.get(&key) }?;
    (open.at.wrapping_add(PUSHED_BY_CALL) == sp).then_some(open.returns_to)
}
