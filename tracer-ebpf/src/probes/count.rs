//! Counts calls of functions, on request.
//!
//! Every call is counted where the function begins, so that the number is exact. Returns are not probed: the kernel would put the address
//! of its own trampoline on the stack, through which no C++ exception passes. So whether a call is nested in another one of the same function
//! is told by the stack: the other one has not returned while its return address stands where it was, above this one's. Leaves out the names
//! of functions, and how long a call takes.

use super::gpu_arguments::{register_of, returns_to, word};
use super::maps::{add_one, current, is_target};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::bpf_get_attach_cookie;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, LruHashMap};
use aya_ebpf::programs::ProbeContext;
use tracer_ebpf::arch::{call::has_not_returned, register};
use tracer_ebpf::count::{Counted, OWN};

/// By function. User space makes it larger where calls are counted.
#[map]
static CALL_COUNTS: Array<Counted> = Array::with_max_entries(1, 0);

/// 1 once the recording has ended: calls that come while the kernel takes the probes away are not its.
#[map]
static COUNTED: Array<u32> = Array::with_max_entries(1, 0);

/// The outermost call of a function by a thread that may not have returned.
#[repr(C)]
#[derive(Clone, Copy)]
struct Outermost {
    /// Where its return address lies, and what it is.
    at: u64,
    returns_to: u64,
}

/// By thread and function. User space makes it larger where calls are counted.
#[map]
static OUTERMOST: LruHashMap<u64, Outermost> = LruHashMap::with_max_entries(1, 0);

/// A function is called.
#[inline(always)]
pub(crate) fn enter(ctx: &ProbeContext) {
    // SAFETY: the helper reads the context.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let (pid, tid) = current();
    if cookie & OWN == 0 && !is_target(pid) || COUNTED.get(0) == Some(&1) {
        return;
    }
    let function = cookie as u32;
    let Some(counted) = CALL_COUNTS.get_ptr_mut(function) else { return };
    let at = register_of(ctx, register::SP);
    // SAFETY: the entry is in the map, which outlives the program; all change it by whole additions.
    unsafe {
        add_one(&raw mut (*counted).calls);
        if is_nested(ctx, u64::from(tid) << 32 | u64::from(function), at) {
            add_one(&raw mut (*counted).nested);
        }
    }
}

/// Whether a call whose stack pointer was `at` is within another one; the outermost one is kept.
#[inline(always)]
fn is_nested(ctx: &ProbeContext, key: u64, at: u64) -> bool {
    let returns_to = returns_to(ctx, at);
    match OUTERMOST.get_ptr_mut(&key) {
        Some(outermost) => {
            // SAFETY: the thread's own entry, and the thread is here.
            let outermost = unsafe { &mut *outermost };
            if has_not_returned(outermost.at, &outermost.returns_to, at, word) {
                return true;
            }
            *outermost = Outermost { at, returns_to };
        }
        None => {
            let _full = OUTERMOST.insert(&key, &Outermost { at, returns_to }, 0);
        }
    }
    false
}
