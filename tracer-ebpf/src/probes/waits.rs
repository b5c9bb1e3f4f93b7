//! What tells for whom a worker thread works: where Python threads wait, and who woke whom.
//!
//! A sleeping thread's stack cannot be read from outside, so it is taken at the switch at which the thread goes to sleep: Python frames
//! only, because they are what a worker's energy is charged to, and they cost a tenth of a whole sample. Threads without Python state and
//! threads that were seen too often pay one map lookup. A stack of the same functions as the thread's last one is sent as a word.
//! Leaves out how long the wait is (the thread's next slice says it) and what it means (user space).

use super::maps::{PYTHONS, current, head_at, is_target, settings};
use super::ranges;
use super::registers::thread_pointer;
use super::rings::{Events, NO_WAKEUP, output, send_event};
use super::scratch::{copy_layout, repeat};
use super::seen_codes::{RecentCodes, SeenCodes};
use super::thread_context::{self, RECORD_WORDS};
use super::user_memory::{FrameMemory, UserMemory};
use super::user_window::Window;
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{LruHashMap, PerCpuArray};
use tracer_ebpf::arch::thread;
use tracer_ebpf::python::{self, PythonWalk, Step};
use tracer_ebpf::wire::{PYTHON_WORDS, PythonLayout, SampleHead, WakeEvent, end, kind, lost};

/// Words of Python frames that a wait can hold: a power of two.
const WAIT_WORDS: usize = 1024;
/// Frames of a wait: as many as fit.
const WAIT_FRAMES: u32 = WAIT_WORDS as u32 / PYTHON_WORDS as u32 - 1;
/// A thread is looked at this often in the long run, and sixteen times at once after a rest: a long wait that follows short ones at once
/// must not be missed.
const EVERY_NS: u64 = 1_000_000;
const BURST_NS: u64 = 16_000_000;
/// The same for a thread that had no Python stack: most such threads never have one.
const NONE_EVERY_NS: u64 = 8_000_000;
/// A CPU looks at this many wake-ups a second in the long run (4,000), and so many at once; more tell nothing new.
const WAKE_EVERY_NS: u64 = 250_000;
const WAKE_BURST_NS: u64 = 16_000_000;
/// A wake-up by the same thread as the last one tells nothing new for this long.
const SAME_WAKER_NS: u64 = 10_000_000;
/// A dead thread waits for nothing (`TASK_DEAD`, `EXIT_DEAD | EXIT_ZOMBIE`, include/linux/sched.h, v6.1).
const DEAD: u32 = 0x80 | 0x10 | 0x20;

/// What is remembered of a thread that waits.
#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    /// The theoretical arrival time of its next look (GCRA, ITU-T I.371).
    due_ns: u64,
    /// Hash of the last stack that was sent.
    stack: u64,
}

/// What is remembered of a thread that is woken.
#[repr(C)]
#[derive(Clone, Copy)]
struct Woken {
    due_ns: u64,
    /// When it was last sent.
    sent_ns: u64,
    /// Thread group and thread of its last waker.
    waker: u64,
}

/// Where a CPU builds a wait. Not the samples': a sample may interrupt this.
#[repr(C)]
struct WaitScratch {
    head: SampleHead,
    /// The frames, and a record.
    words: [u64; WAIT_WORDS + RECORD_WORDS],
    layout: PythonLayout,
    walk: PythonWalk,
    window: Window,
    codes: RecentCodes,
    cursor: u64,
    hash: u64,
}

#[map]
static WAIT_SCRATCH: PerCpuArray<WaitScratch> = PerCpuArray::with_max_entries(1, 0);

/// The code objects that a CPU's waits held before.
#[map]
static WAIT_CODES: PerCpuArray<SeenCodes> = PerCpuArray::with_max_entries(1, 0);

#[map]
static WAITERS: LruHashMap<u32, Waiter> = LruHashMap::with_max_entries(16384, 0);

/// When this CPU looks at wake-ups again, as `is_due` keeps it.
#[map]
static WAKES_DUE: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

#[map]
static WOKEN: LruHashMap<u32, Woken> = LruHashMap::with_max_entries(16384, 0);

/// `current`, a thread of a target, leaves its CPU: if it goes to sleep and has a Python stack, that is sent.
#[inline(always)]
pub(crate) fn begin(pid: u32, tid: u32, now: u64) {
    // SAFETY: the helper checks the address.
    let state = unsafe {
        let task = bpf_get_current_task() as *const u8;
        bpf_probe_read_kernel(task.add(settings().task_state as usize).cast::<u32>())
    };
    match state {
        Ok(state) if state != 0 && state & DEAD == 0 => (),
        _ => return, // Preempted, or dead.
    }
    let waiter = match WAITERS.get_ptr_mut(&tid) {
        Some(waiter) => waiter,
        None => {
            let fresh = Waiter { due_ns: now, stack: 0 };
            if WAITERS.insert(&tid, &fresh, 0).is_err() {
                return;
            }
            let Some(waiter) = WAITERS.get_ptr_mut(&tid) else { return };
            waiter
        }
    };
    // SAFETY: the thread's own entry, and the thread is here.
    let waiter = unsafe { &mut *waiter };
    if !is_due(&mut waiter.due_ns, now, EVERY_NS, BURST_NS) {
        return;
    }
    let last = waiter.stack;
    match wait_stack(pid, tid, now, last) {
        NO_STACK => waiter.due_ns += NONE_EVERY_NS - EVERY_NS,
        sent => waiter.stack = sent,
    }
}

/// Whether something is due that happens every `every_ns` in the long run, and earlier by up to `burst_ns` in all.
#[inline(always)]
pub(super) fn is_due(due_ns: &mut u64, now: u64, every_ns: u64, burst_ns: u64) -> bool {
    let due = if *due_ns > now { *due_ns } else { now };
    if due - now > burst_ns {
        return false;
    }
    *due_ns = due + every_ns;
    true
}

/// Hashes are odd.
const NO_STACK: u64 = 2;

/// `python_stack`, in a function with a global name: the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn wait_stack(pid: u32, tid: u32, now: u64, last: u64) -> u64 {
    python_stack(pid, tid, now, last).unwrap_or(NO_STACK)
}

/// Sends the Python stack of `current`; its hash, 0 where it could not be sent, `None` where there is none.
#[inline(always)]
fn python_stack(pid: u32, tid: u32, now: u64, last: u64) -> Option<u64> {
    // SAFETY: the value is copied at once.
    let layout = unsafe { PYTHONS.get(&pid) }?;
    let begun = scratch()?;
    copy_layout(layout, &mut begun.layout);
    let thread = wait_state(thread::descriptor(thread_pointer()?, begun.layout.tsd_block));
    if thread == 0 {
        return None;
    }
    let begun = scratch()?;
    begun.cursor = 0;
    begun.hash = 0;
    begun.head = SampleHead::default();
    begun.head.head = head_at(kind::WAIT, pid, tid, now);
    begun.head.native_end = end::NOTHING;
    begun.head.range = ranges::path_of(tid);
    begun.window.clear();
    begun.codes.begin(now);
    begun.codes.bring_all(begun.layout.takes_turns != 0);
    python::begin(&begun.layout, thread, &mut begun.walk, &UserMemory).ok()?;
    begun.head.python_end = end::RUNNING;
    walk_wait();
    let done = scratch()?;
    if done.head.python == 0 {
        return None;
    }
    if done.head.python_end == end::RUNNING {
        done.head.python_end = end::TOO_DEEP;
    }
    let mut hash = done.hash;
    mix(&mut hash, done.head.range);
    if settings().ranges != 0 {
        mix(&mut hash, add_span());
    }
    let done = scratch()?;
    done.codes.send::<Events>(codes()?, done.head.head, lost::WAITS);
    let hash = hash | 1;
    if hash == last { again(pid, tid, now) } else { send(done) }.then_some(hash).or(Some(0))
}

/// Puts the record of the thread's span behind the frames; a hash of which it is, 0: none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_span() -> u64 {
    let Some(scratch) = scratch() else { return 0 };
    let at = scratch.cursor as usize & (WAIT_WORDS - 1);
    // SAFETY: behind the frames there is room for a record.
    let place = unsafe { scratch.words.as_mut_ptr().add(at) };
    // SAFETY: as above.
    let bytes = unsafe { thread_context::take(place, scratch.head.head.pid) };
    scratch.head.context = bytes as u16;
    scratch.cursor = at as u64 + u64::from(bytes.div_ceil(8));
    let mut hash = u64::from(bytes);
    if bytes != 0 {
        // SAFETY: as above.
        unsafe { (0..3).for_each(|word| mix(&mut hash, place.add(word).read())) };
    }
    hash
}

/// The state of the thread with this thread pointer, by the layout in the scratch; 0 where there is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn wait_state(thread_pointer: u64) -> u64 {
    scratch().and_then(|scratch| state_of(&scratch.layout, thread_pointer)).unwrap_or(0)
}

/// The state of the thread, where it is beyond doubt (as in `python_walk.rs`). The list of threads is not searched: it costs too much for a
/// thread that may not be there.
#[inline(always)]
fn state_of(layout: &PythonLayout, thread_pointer: u64) -> Option<u64> {
    if let Some(thread) = python::running_thread(layout, thread_pointer, &UserMemory) {
        return Some(thread);
    }
    let thread = python::thread_by_key(layout, thread_pointer, &UserMemory)?;
    let sure = layout.key_follows == 1 || !python::has_sub_interpreters(layout, &UserMemory);
    sure.then_some(thread)
}

/// Takes the frames of a wait; 1 where it came to their end. Like `wait_step` it has a global name so that the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_wait() -> u32 {
    u32::from(repeat(WAIT_FRAMES, |_| wait_step()))
}

/// Takes one frame; 1 at the end of the walk.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn wait_step() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    let memory = FrameMemory { window: &raw mut scratch.window };
    match python::step(&scratch.layout, &mut scratch.walk, &memory) {
        Step::Frame(frame) => {
            let at = scratch.cursor as usize & (WAIT_WORDS - 1);
            scratch.words[at] = frame.code;
            scratch.words[at + 1] = frame.instruction;
            scratch.words[at + 2] = frame.anchor;
            scratch.words[at + 3] = frame.class;
            scratch.cursor = (at + PYTHON_WORDS) as u64;
            scratch.head.python += 1;
            let WaitScratch { codes: recent, layout, walk, head, hash, .. } = scratch;
            let Some(seen) = codes() else { return 1 };
            let process = (head.head.pid, layout.program);
            let code = (frame.code, python::globals(layout, walk));
            let looks = (
                |code, is| is_same_waiting(code, is) != 0,
                |code| _ = check_waiting(code),
                || _ = tell_waiting(),
            );
            recent.add(seen, code, process, looks);
            mix(hash, recent.identity(seen, frame.code, process));
            mix(hash, frame.instruction);
            0
        }
        Step::Restart => {
            scratch.head.python = 0;
            scratch.cursor = 0;
            scratch.hash = 0;
            0
        }
        Step::End(code) => {
            scratch.head.python_end = code;
            1
        }
    }
}

/// Whether a code object's own fields say what is remembered of it; 0: they do not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_same_waiting(code: u64, remembered: u32) -> u32 {
    let (Some(scratch), Some(seen)) = (scratch(), codes()) else { return 0 };
    u32::from(seen.is_same(code, remembered, (scratch.layout.check, &UserMemory)))
}

/// Finds what tells a code object from others.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_waiting(code: u64) -> u32 {
    let (Some(scratch), Some(seen)) = (scratch(), codes()) else { return 0 };
    let places = (scratch.layout.check, &UserMemory);
    seen.look(&mut scratch.codes, code, places, |text| say_waiting(text) != 0);
    0
}

/// Takes along what the code object says that was looked at last.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tell_waiting() -> u32 {
    let (Some(scratch), Some(seen)) = (scratch(), codes()) else { return 0 };
    seen.tell(&mut scratch.codes, (scratch.layout.check, &UserMemory));
    0
}

/// Finds what a string says; 0 where it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn say_waiting(text: u64) -> u32 {
    let (Some(scratch), Some(seen)) = (scratch(), codes()) else { return 0 };
    u32::from(seen.say(scratch.layout.check, text, &UserMemory))
}

/// A word into a hash: multiply and rotate with the constant of FxHash (Firefox, rustc).
#[inline(always)]
fn mix(hash: &mut u64, word: u64) {
    *hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95);
}

/// Sends the wait that was built.
#[inline(always)]
fn send(scratch: &mut WaitScratch) -> bool {
    scratch.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    let words = scratch.cursor & (2 * WAIT_WORDS as u64 - 1);
    if words > (WAIT_WORDS + RECORD_WORDS) as u64 {
        return false;
    }
    let bytes = size_of::<SampleHead>() as u64 + words * 8;
    // SAFETY: head and words lie next to each other in the map's value, which holds more than `bytes`.
    unsafe { output::<Events>((&raw mut scratch.head).cast(), bytes, NO_WAKEUP, lost::WAITS) }
}

/// Says that the thread waits where it last did.
#[inline(always)]
fn again(pid: u32, tid: u32, now: u64) -> bool {
    let event = head_at(kind::WAIT_AGAIN, pid, tid, now);
    send_event(&event, NO_WAKEUP, lost::WAITS)
}

/// `current` wakes a thread. From an interrupt `current` is whoever was interrupted: such a waker is wrong, and user space follows wake-ups
/// only where one of several waiting threads must be chosen.
#[inline(always)]
pub(crate) fn wake(wakee: *const u8) {
    let (pid, tid) = current();
    if tid == 0 {
        return;
    }
    // SAFETY: only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    let Some(due_ns) = WAKES_DUE.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's value; the hook runs under the woken thread's lock, with interrupts off.
    let due_ns = unsafe { &mut *due_ns };
    if *due_ns > now + WAKE_BURST_NS || !is_target(pid) {
        return;
    }
    is_due(due_ns, now, WAKE_EVERY_NS, WAKE_BURST_NS);
    let offsets = settings();
    let Some(woken_tid) = field(wakee, offsets.task_pid) else { return };
    let waker = u64::from(pid) << 32 | u64::from(tid);
    let due_ns = match WOKEN.get_ptr_mut(&woken_tid) {
        Some(woken) => {
            // SAFETY: a thread is woken by one at a time, under its own lock (`p->pi_lock`).
            let woken = unsafe { &mut *woken };
            if woken.waker == waker && now - woken.sent_ns < SAME_WAKER_NS {
                return;
            }
            if !is_due(&mut woken.due_ns, now, EVERY_NS, BURST_NS) {
                return;
            }
            woken.waker = waker;
            woken.sent_ns = now;
            0
        }
        None => now + EVERY_NS,
    };
    if due_ns != 0 {
        let _full = WOKEN.insert(&woken_tid, &Woken { due_ns, sent_ns: now, waker }, 0);
    }
    let Some(woken_pid) = field(wakee, offsets.task_tgid) else { return };
    // SAFETY: the value is not kept.
    if woken_tid == tid || !is_target(woken_pid) || unsafe { PYTHONS.get(&woken_pid) }.is_none() {
        return;
    }
    let head = head_at(kind::WAKE, woken_pid, woken_tid, now);
    let event = WakeEvent { head, waker_pid: pid, waker_tid: tid };
    send_event(&event, NO_WAKEUP, lost::WAITS);
}

/// A 32-bit field of a kernel struct.
#[inline(always)]
fn field(base: *const u8, offset: u32) -> Option<u32> {
    // SAFETY: the helper checks the address; it fails rather than faults.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<u32>()) }.ok()
}

/// This CPU's scratch.
#[inline(always)]
fn scratch() -> Option<&'static mut WaitScratch> {
    // SAFETY: this CPU's value; the hook runs with interrupts off, and nothing else uses it.
    WAIT_SCRATCH.get_ptr_mut(0).map(|scratch| unsafe { &mut *scratch })
}

/// This CPU's code objects.
#[inline(always)]
fn codes() -> Option<&'static mut SeenCodes> {
    // SAFETY: as above.
    WAIT_CODES.get_ptr_mut(0).map(|codes| unsafe { &mut *codes })
}
