//! Calls of GPU libraries: each launch is one event, and its stack is taken where it is new or due.
//!
//! A launch costs a few lookups and one event; a stack costs a whole sample. So counts are never thinned and stacks are: a site (the caller's
//! address, its stack pointer and the function) has its stack taken when it is met; then launches are drawn at random, a thousand of each
//! thread a second, so that sites which several callers share are seen in proportion. A call of the runtime library calls the driver's:
//! both are sent, and the inner one is marked while the outer one's return address still lies where it was. Leaves out what the calls
//! mean (user space).

use super::gpu_arguments::{Arguments, arguments, launched, node, register_of, word};
use super::gpu_stack;
use super::maps::{count, current, head, is_always_on, is_target};
use super::open_calls::{OPEN_CALLS, OpenCall};
use super::ranges;
use super::rings::{Events, NO_WAKEUP, WAKEUP, is_filling, is_full, reserve_event, send_event};
use super::waits::is_due;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_get_prandom_u32};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, LruHashMap};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use core::ffi::c_void;
use tracer_ebpf::arch::{call::has_not_returned, register};
use tracer_ebpf::gpu::{
    GpuEvent, GpuName, NAME_BYTES, NESTED, OF_RUNTIME, RUNTIME, STANDS_FOR_SHIFT, UNMATCHED, WAITS, call,
};
use tracer_ebpf::wire::{kind, lost};

/// A thread's stacks: so many in each window, which is longer for an agent.
const WINDOW_NS: u64 = 10_000_000;
const AGENT_WINDOW_NS: u64 = 500_000_000;
const IN_WINDOW: u64 = 10;
/// Launches of a thread that an agent is told one by one in its window; of more some are drawn, each for several.
const MOST_IN_WINDOW: u64 = 5_000;
/// Stacks of new sites, by thread: in the long run and at once.
const EVERY_NS: u64 = 1_000_000;
const AGENT_EVERY_NS: u64 = 10_000_000;
const BURST_NS: u64 = 4_000_000_000;
/// Shorter waits tell nothing.
const SHORTEST_WAIT_NS: u64 = 20_000;

/// The last call of the runtime library by a thread, and what limits its stacks.
#[repr(C)]
#[derive(Clone, Copy)]
struct Caller {
    /// Where its return address lies, and what it is.
    at: u64,
    returns_to: u64,
    due_ns: u64,
    /// Since when launches are counted, how many there are, and how many there were in the window before.
    since_ns: u64,
    count: u64,
    before: u64,
    /// 1 while it captures a graph: what is captured runs many times, so that every stack counts.
    capturing: u64,
    /// 1 when a launch was seen that the injected library has not reported yet.
    unmatched: u64,
}

const FRESH: Caller =
    Caller { at: 0, returns_to: 0, due_ns: 0, since_ns: 0, count: 0, before: 0, capturing: 0, unmatched: 0 };

#[map]
static CALLERS: LruHashMap<u32, Caller> = LruHashMap::with_max_entries(16384, 0);

/// Sites whose stack was taken.
#[map]
static SITES: LruHashMap<u64, u8> = LruHashMap::with_max_entries(65536, 0);

/// 1 once runtime libraries are left alone: their calls are not sent any more, while the kernel takes the probes away.
#[map]
static RUNTIME_LEFT: Array<u32> = Array::with_max_entries(1, 0);

/// A function of a GPU library is called.
#[inline(always)]
pub(crate) fn enter(ctx: &ProbeContext) {
    let due = called(ctx.as_ptr());
    if due != NOT_DUE {
        gpu_stack::finish(due == NEW);
    }
}

/// Sends or keeps what a call tells; whether it keeps an event for which a stack is due. A function of its own, for what it has on the stack must
/// not be there while the walks run: before Linux 6.13 all functions that have called each other share 512 bytes.
#[inline(never)]
fn called(ctx: *mut c_void) -> u32 {
    let (pid, tid) = current();
    if !is_target(pid) {
        return NOT_DUE;
    }
    // SAFETY: the helper reads the context.
    let cookie = unsafe { bpf_get_attach_cookie(ctx) };
    let what = (cookie & 0xff) as u32;
    let arguments = arguments(&ProbeContext::new(ctx));
    let [first, second, third, fourth, ..] = arguments.registers;
    match what {
        call::LAUNCH..=call::MEMSET => {
            if cookie & WAITS != 0 {
                open(call::WAIT, tid, 0, 0, &arguments);
            }
            return launch(what, cookie, &arguments, pid, tid);
        }
        call::ADD_NODE => {
            open(what, tid, first, second, &arguments);
            return launch(what, cookie, &arguments, pid, tid);
        }
        call::SET_NODE => {
            open(what, tid, second, first, &arguments);
            return launch(what, cookie, &arguments, pid, tid);
        }
        // Its graph is the second argument, the other one the fifth.
        call::ADD_CHILD => open(what, tid, second, arguments.registers[4], &arguments),
        call::BEGIN_CAPTURE | call::BEGIN_CAPTURE_TO | call::SET_CONTEXT => {
            let mut event = GpuEvent { head: head(kind::GPU, pid, tid), call: what, ..GpuEvent::default() };
            (event.a, event.b) = (first, second);
            if what != call::SET_CONTEXT {
                set_capturing(tid, 1);
            }
            send(&event);
        }
        call::END_CAPTURE => {
            set_capturing(tid, 0);
            open(what, tid, first, second, &arguments);
        }
        call::NAME => open(what, tid, first, third, &arguments),
        call::LAUNCHED => return launched_with(&arguments, pid, tid),
        call::CONTEXT_THIRD => open(what, tid, first, third, &arguments),
        call::CONTEXT_FOURTH => open(what, tid, first, fourth, &arguments),
        _ => open(what, tid, first, second, &arguments),
    }
    NOT_DUE
}

/// A thread begins or ends a capture.
#[inline(always)]
fn set_capturing(tid: u32, capturing: u64) {
    match CALLERS.get_ptr_mut(&tid) {
        // SAFETY: the thread's own entry, and the thread is here.
        Some(caller) => unsafe { (*caller).capturing = capturing },
        None => {
            let _full = CALLERS.insert(&tid, &Caller { capturing, ..FRESH }, 0);
        }
    }
}

#[inline(always)]
fn open(what: u32, tid: u32, a: u64, b: u64, arguments: &Arguments) {
    let since_ns = head(kind::GPU, 0, tid).at_ns;
    let key = u64::from(tid) << 8 | u64::from(what);
    let _full = OPEN_CALLS.insert(
        &key,
        &OpenCall { since_ns, a, b, at: arguments.sp, returns_to: arguments.returns_to },
        0,
    );
}

#[inline(always)]
fn launch(what: u32, cookie: u64, arguments: &Arguments, pid: u32, tid: u32) -> u32 {
    let of_runtime = cookie & RUNTIME != 0;
    let left = RUNTIME_LEFT.get(0) == Some(&1);
    if of_runtime && left {
        return NOT_DUE;
    }
    let of_node = matches!(what, call::ADD_NODE | call::SET_NODE);
    let (what, a, b, stream) = if of_node {
        let (kind, function, amount) = node(cookie, arguments);
        let [first, second, ..] = arguments.registers;
        (kind, function, amount, if what == call::ADD_NODE { second } else { first })
    } else {
        let (a, b, stream) = launched(what, cookie, arguments);
        (what, a, b, stream)
    };
    if what == 0 {
        return NOT_DUE;
    }
    let returns_to = arguments.returns_to;
    // What is launched in several ranges has a stack in each.
    let site = hash(hash(hash(hash(u64::from(what), returns_to), arguments.sp), a), ranges::path_of(tid));
    let event_head = head(kind::GPU, pid, tid);
    let now = event_head.at_ns;
    let caller = CALLERS.get_ptr_mut(&tid);
    let mut event = GpuEvent { head: event_head, call: what, flags: 0, a, b, site, stream };
    let mut fresh = Caller { due_ns: now, since_ns: now, ..FRESH };
    // SAFETY: the thread's own entry, and the thread is here.
    let state = match caller {
        Some(caller) => unsafe { &mut *caller },
        None => &mut fresh,
    };
    let known = caller.is_some();
    state.unmatched = 1;
    if of_runtime {
        event.flags |= OF_RUNTIME;
        (state.at, state.returns_to) = (arguments.sp, returns_to);
    } else if !of_node && has_not_returned(state.at, &state.returns_to, arguments.sp, word) {
        event.flags |= NESTED;
    }
    if left {
        // The last call of a runtime that was sent is this one's outer call, or none is.
        state.at = 0;
    }
    let mut due = NOT_DUE;
    if event.flags & NESTED == 0 {
        // What is put into a graph runs many times.
        let counts = of_node || state.capturing != 0;
        let most = count_launch(now, state);
        let stands_for = if is_always_on() && !counts { 1 + most / MOST_IN_WINDOW } else { 1 };
        if stands_for > 1 && u64::from(random()) % stands_for != 0 {
            return NOT_DUE;
        }
        event.flags |= (stands_for as u32) << STANDS_FOR_SHIFT;
        due = stack_is_due(site ^ u64::from(tid), now, state, (most, counts));
    }
    if !known {
        let _full = CALLERS.insert(&tid, &fresh, 0);
    }
    keep_or_send(&event, due)
}

/// The injected library tells of a launch. Where its call was seen it is known already; else the stack is taken here.
#[inline(always)]
fn launched_with(arguments: &Arguments, pid: u32, tid: u32) -> u32 {
    let [correlation, function, name, node, ..] = arguments.registers;
    let event_head = head(kind::GPU, pid, tid);
    let now = event_head.at_ns;
    let site = hash(hash(hash(u64::from(call::LAUNCHED), function), arguments.sp), ranges::path_of(tid));
    let (a, b) = (correlation & 0xffff_ffff, name & 0xffff_ffff);
    let mut event = GpuEvent { head: event_head, call: call::LAUNCHED, flags: 0, a, b, site, stream: node };
    let caller = CALLERS.get_ptr_mut(&tid);
    let mut fresh = Caller { due_ns: now, since_ns: now, ..FRESH };
    // SAFETY: the thread's own entry, and the thread is here.
    let state = match caller {
        Some(caller) => unsafe { &mut *caller },
        None => &mut fresh,
    };
    let known = caller.is_some();
    let mut due = NOT_DUE;
    if state.unmatched == 0 {
        event.flags |= UNMATCHED;
        let counts = state.capturing != 0;
        let most = count_launch(now, state);
        due = stack_is_due(site ^ u64::from(tid), now, state, (most, counts));
    }
    state.unmatched = 0;
    if !known {
        let _full = CALLERS.insert(&tid, &fresh, 0);
    }
    keep_or_send(&event, due)
}

/// Keeps a launch whose stack is due and can be taken, and sends any other; says which.
#[inline(always)]
fn keep_or_send(event: &GpuEvent, due: u32) -> u32 {
    if due != NOT_DUE && gpu_stack::keep(event) {
        return due;
    }
    send(event);
    NOT_DUE
}

/// No stack; one of a site that is known; one of a new site.
const NOT_DUE: u32 = 2;
const KNOWN: u32 = 0;
const NEW: u32 = 1;

/// Counts a launch of a thread; how many it makes in a window.
#[inline(always)]
fn count_launch(now: u64, state: &mut Caller) -> u64 {
    let window_ns = if is_always_on() { AGENT_WINDOW_NS } else { WINDOW_NS };
    if now - state.since_ns > window_ns {
        // A rest longer than a window tells nothing of the rate before it.
        state.before = if now - state.since_ns > 2 * window_ns { 0 } else { state.count };
        (state.since_ns, state.count) = (now, 0);
    }
    state.count += 1;
    if state.before > state.count { state.before } else { state.count }
}

/// Whether the stack of a launch is to be taken, of which its thread makes `most` in a window. `counts`: each stack of the place counts.
#[inline(always)]
fn stack_is_due(site: u64, now: u64, state: &mut Caller, (most, counts): (u64, bool)) -> u32 {
    if SITES.get_ptr(&site).is_none() || counts {
        let every_ns = if is_always_on() { AGENT_EVERY_NS } else { EVERY_NS };
        if !is_due(&mut state.due_ns, now, every_ns, BURST_NS) {
            return NOT_DUE;
        }
        let _full = SITES.insert(&site, &1, 0);
        return NEW;
    }
    let drawn = most <= IN_WINDOW || u64::from(random()) % most < IN_WINDOW;
    if drawn { KNOWN } else { NOT_DUE }
}

#[inline(always)]
fn random() -> u32 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_prandom_u32() }
}

#[inline(always)]
fn hash(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95)
}

/// A function of a GPU library returns.
#[inline(always)]
pub(crate) fn leave(ctx: &RetProbeContext) {
    let (pid, tid) = current();
    if !is_target(pid) {
        return;
    }
    // Of a copy that may wait the wait is told when it returns.
    // SAFETY: the helper reads the context.
    let what = match (unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } & 0xff) as u32 {
        call::COPY => call::WAIT,
        what => what,
    };
    let key = u64::from(tid) << 8 | u64::from(what);
    // SAFETY: the value is copied at once.
    let Some(&OpenCall { since_ns, a, b, .. }) = (unsafe { OPEN_CALLS.get(&key) }) else { return };
    let _gone = OPEN_CALLS.remove(&key);
    let mut event = GpuEvent { head: head(kind::GPU, pid, tid), call: what, ..GpuEvent::default() };
    match what {
        call::WAIT => {
            if event.head.at_ns - since_ns < SHORTEST_WAIT_NS {
                return;
            }
            event.a = since_ns;
        }
        call::NAME => {
            send_name(pid, tid, word(a), b);
            return;
        }
        call::END_CAPTURE => (event.a, event.b) = (a, word(b)),
        call::ADD_NODE | call::SET_NODE | call::ADD_CHILD | call::UPDATE_GRAPH => {
            if register_of(ctx, register::RESULT) as u32 == 0 {
                (event.a, event.b) = (if what == call::ADD_NODE { word(a) } else { a }, b);
            }
        }
        call::CONTEXT | call::CONTEXT_THIRD | call::CONTEXT_FOURTH => {
            (event.call, event.a, event.b) = (call::CONTEXT, word(a), b & 0xffff_ffff);
        }
        _ => (event.a, event.b) = (word(a), b),
    }
    send(&event);
}

/// Sends the name of a function.
#[inline(always)]
fn send_name(pid: u32, tid: u32, function: u64, name: u64) {
    let Some(mut entry) = reserve_event::<GpuName>(lost::LAUNCHES) else { return };
    let place = entry.as_mut_ptr();
    // SAFETY: the entry is ours until it is submitted, and every byte of it is written; the helper fails rather than faults.
    unsafe {
        (*place).head = head(kind::GPU_NAME, pid, tid);
        (*place).function = function;
        (*place).name = [0; NAME_BYTES];
        let text = (&raw mut (*place).name).cast();
        let _failed =
            aya_ebpf::helpers::generated::bpf_probe_read_user_str(text, NAME_BYTES as u32, name as *const _);
    }
    entry.submit(NO_WAKEUP);
}

/// An agent looks seldom, as nothing is to be read of a process that launches: it is to look before much of the ring buffer is full, and half of that
/// is left for what tells who lives.
#[inline(always)]
fn send(event: &GpuEvent) {
    if !is_always_on() {
        send_event(event, NO_WAKEUP, lost::LAUNCHES);
    } else if is_full::<Events>() {
        count(lost::LAUNCHES);
    } else {
        let flags = if is_filling::<Events>() { WAKEUP } else { NO_WAKEUP };
        send_event(event, flags, lost::LAUNCHES);
    }
}
