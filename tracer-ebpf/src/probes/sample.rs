//! Takes a stack sample: kernel frames by the kernel's own helper, Python frames from the thread state, native frames by row tables.
//!
//! Both walks are `bpf_loop` callbacks over state in the scratch map: the verifier looks at one step, whatever the depth. A walk that
//! cannot go on says why; the sample is sent all the same.

use super::maps::{CPU_STATE, EVENTS, PYTHONS, SCRATCH, Scratch, count, current, head, is_target, settings};
use super::scan;
use super::sched::{NO_WAKEUP, WAKEUP};
use super::tables::ProcessTables;
use super::user_memory::UserMemory;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_loop, bpf_ringbuf_output, bpf_task_pt_regs};
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_get_current_task_btf, bpf_get_smp_processor_id,
    bpf_probe_read_kernel,
};
use aya_ebpf::programs::PerfEventContext;
use core::ffi::c_void;
use tracer_ebpf::native::{self, NativeWalk};
use tracer_ebpf::python::{self, MAX_THREADS, PythonWalk, Step};
use tracer_ebpf::wire::{
    MAX_FRAMES, MAX_KERNEL_FRAMES, NATIVE_WORDS, PYTHON_WORDS, PythonLayout, SAMPLE_WORDS, SampleHead, end,
    kind, lost,
};

/// Offsets in `struct pt_regs` (arch/x86/include/asm/ptrace.h, v6.1).
mod pt_regs {
    pub(super) const BP: usize = 32;
    pub(super) const IP: usize = 128;
    pub(super) const SP: usize = 152;
}

/// The state of both walks, in the scratch map.
#[repr(C)]
pub(crate) struct Walks {
    layout: PythonLayout,
    python: PythonWalk,
    fsbase: u64,
    /// A thread state that is being looked at, then the one that was found.
    thread: u64,
    pub(super) native: NativeWalk,
    pub(super) tables: ProcessTables,
    /// Words of frames so far.
    cursor: u64,
    /// 1: a scan found a caller.
    pub(super) found: u64,
    /// Anchors of Python runs, innermost first, and how many there are; then the one that is next for native frames.
    anchors: [u64; MAX_ANCHORS],
    anchor: u64,
}

/// Anchors that are kept: a power of two. Deeper nesting of interpreters is not bridged.
const MAX_ANCHORS: usize = 32;
/// Gaps that are bridged in one stack.
const MAX_HEALED: u32 = 6;

/// Takes a sample of `current` if it is a target.
#[inline(always)]
pub(crate) fn take(ctx: &PerfEventContext) {
    let (pid, tid) = current();
    if tid == 0 || !is_target(pid) {
        return;
    }
    count(lost::TAKEN);
    let Some(begun) = scratch() else { return };
    begun.head = SampleHead { head: head(kind::SAMPLE, pid, tid), ..SampleHead::default() };
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    kernel_frames(ctx, begun);
    let python_end = python_frames(pid);
    let native_end = native_frames(pid);
    let Some(done) = scratch() else { return };
    done.head.python_end = python_end;
    done.head.native_end = native_end;
    send(done);
}

/// Kernel frames, where the kernel was interrupted.
#[inline(always)]
fn kernel_frames(ctx: &PerfEventContext, scratch: &mut Scratch) {
    const EFAULT: i64 = 14;
    let bytes = MAX_KERNEL_FRAMES * 8;
    // SAFETY: `words` has room for `bytes`; the helper writes no more.
    let got = unsafe { bpf_get_stack(ctx.as_ptr(), scratch.words.as_mut_ptr().cast(), bytes, 0) };
    let frames = if got > 0 { got as u64 / 8 } else { 0 };
    if got < 0 && got != -EFAULT {
        count(lost::KERNEL_STACKS); // EFAULT is its word for "user mode was interrupted".
    }
    scratch.head.kernel = frames as u16;
    scratch.walk.cursor = frames;
}

/// Python frames; why they end.
#[inline(always)]
fn python_frames(pid: u32) -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    // SAFETY: the value is copied at once.
    let Some(layout) = (unsafe { PYTHONS.get(&pid) }) else { return end::NOTHING };
    scratch.walk.layout = *layout;
    scratch.walk.anchor = 0;
    scratch.walk.anchors[0] = 0;
    // SAFETY: the helper checks the address.
    let fsbase = unsafe {
        let task = bpf_get_current_task() as *const u8;
        bpf_probe_read_kernel(task.add(settings().task_fsbase as usize).cast::<u64>())
    };
    let Ok(fsbase) = fsbase else { return end::FAULT };
    scratch.walk.fsbase = fsbase;
    let walk = &mut scratch.walk;
    match python::thread_by_key(&walk.layout, fsbase, &UserMemory) {
        Some(thread) => walk.thread = thread,
        None => find_thread(walk),
    }
    begin_python()
}

/// Walks from the thread's state, if there is one.
#[inline(always)]
fn begin_python() -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    let walk = &mut scratch.walk;
    if !python::is_thread(&walk.layout, walk.thread, walk.fsbase, &UserMemory) {
        return end::NOTHING;
    }
    if let Err(code) = python::begin(&walk.layout, walk.thread, &mut walk.python, &UserMemory) {
        return code;
    }
    scratch.head.python_end = end::RUNNING;
    repeat(MAX_FRAMES, python_step);
    walked(|head| head.python_end)
}

/// Looks for the thread's state in the interpreter's list.
#[inline(always)]
fn find_thread(walk: &mut Walks) {
    walk.thread = python::first_thread(&walk.layout, &UserMemory).unwrap_or(0);
    repeat(MAX_THREADS, thread_step);
}

unsafe extern "C" fn thread_step(_index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    let walk = &mut scratch.walk;
    if walk.thread == 0 || python::is_thread(&walk.layout, walk.thread, walk.fsbase, &UserMemory) {
        return 1;
    }
    use tracer_ebpf::memory::Memory as _;
    walk.thread = UserMemory.read_word(walk.thread + u64::from(walk.layout.thread_next)).unwrap_or(0);
    0
}

unsafe extern "C" fn python_step(_index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    match python::step(&scratch.walk.layout, &mut scratch.walk.python, &UserMemory) {
        Step::Frame(frame) => {
            let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
            scratch.words[at] = frame.code;
            scratch.words[at + 1] = frame.instruction;
            scratch.words[at + 2] = frame.anchor;
            scratch.walk.cursor = (at + PYTHON_WORDS) as u64;
            scratch.head.python += 1;
            keep_anchor(&mut scratch.walk, frame.anchor);
            0
        }
        Step::Restart => {
            scratch.head.python = 0;
            scratch.walk.cursor = u64::from(scratch.head.kernel);
            scratch.walk.anchor = 0;
            scratch.walk.anchors[0] = 0;
            0
        }
        Step::End(code) => {
            scratch.head.python_end = code;
            1
        }
    }
}

/// Keeps an anchor for the native walk, and a zero behind it.
#[inline(always)]
fn keep_anchor(walk: &mut Walks, anchor: u64) {
    if anchor != 0 && walk.anchor < MAX_ANCHORS as u64 - 1 {
        let at = walk.anchor as usize & (MAX_ANCHORS - 1);
        walk.anchors[at] = anchor;
        walk.anchors[(at + 1) & (MAX_ANCHORS - 1)] = 0;
        walk.anchor += 1;
    }
}

/// Native frames; why they end. A walk that ends early goes on where it can: `heal`.
#[inline(always)]
fn native_frames(pid: u32) -> u8 {
    let Some(begun) = scratch() else { return end::NOTHING };
    if !user_registers(&mut begun.walk.native) {
        return end::NOTHING;
    }
    let Some(tables) = ProcessTables::of(pid) else {
        push_native(begun, begun.walk.native.pc, 0);
        return end::NOT_READY;
    };
    begun.walk.tables = tables;
    begun.walk.anchor = 0;
    let mut code = end::NOTHING;
    for _ in 0..=MAX_HEALED {
        let Some(now) = scratch() else { return end::NOTHING };
        now.head.native_end = end::RUNNING;
        repeat(MAX_FRAMES, native_step);
        code = walked(|head| head.native_end);
        if matches!(code, end::COMPLETE | end::TOO_DEEP) || !heal(code) {
            break;
        }
    }
    code
}

/// How a walk ended. The scratch is looked up anew: the callbacks wrote to it behind the back of any reference.
#[inline(always)]
fn walked(ended: impl Fn(&SampleHead) -> u8) -> u8 {
    match scratch().map(|scratch| ended(&scratch.head)) {
        Some(end::RUNNING) => end::TOO_DEEP,
        Some(code) => code,
        None => end::NOTHING,
    }
}

/// Bridges a gap: by the return address of code without unwind information, else at the interpreter's next frame.
#[inline(always)]
fn heal(code: u8) -> bool {
    let Some(before) = scratch() else { return false };
    before.walk.found = 0;
    if code == end::NO_UNWIND_INFO {
        scan::scan(before);
    } else if code == end::NOT_READY {
        return false;
    }
    let Some(now) = scratch() else { return false };
    if now.walk.found == 0 && !resume(now, code) {
        return false;
    }
    now.head.healed += 1;
    true
}

pub(super) unsafe extern "C" fn scan_step(index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    let address = scratch.walk.native.sp + u64::from(index) * 8;
    let Some(found) = native::scan(&scratch.walk.native, address, &mut scratch.walk.tables, &UserMemory)
    else {
        return 0;
    };
    scratch.walk.native = found;
    scratch.walk.found = 1;
    // The frame without unwind information ends behind its return address.
    let last = (scratch.walk.cursor as usize).wrapping_sub(1) & (SAMPLE_WORDS - 1);
    scratch.words[last] = found.sp;
    1
}

/// Goes on at the first interpreter frame above the stack pointer.
#[inline(always)]
fn resume(scratch: &mut Scratch, code: u8) -> bool {
    if scratch.walk.layout.eval_cfa == 0 || scratch.head.python == 0 {
        return false;
    }
    let mut anchor = 0;
    for _ in 0..MAX_ANCHORS {
        let at = scratch.walk.anchor as usize & (MAX_ANCHORS - 1);
        anchor = scratch.walk.anchors[at];
        if anchor == 0 || anchor > scratch.walk.native.sp {
            break;
        }
        scratch.walk.anchor += 1;
    }
    if anchor <= scratch.walk.native.sp {
        return false;
    }
    let Some(walk) = native::resume(anchor, &scratch.walk.layout, &UserMemory) else { return false };
    scratch.walk.native = walk;
    push_native(scratch, u64::from(code), walk.sp);
    true
}

/// The registers with which user mode was left; false for a kernel thread, which has none.
#[inline(always)]
fn user_registers(walk: &mut NativeWalk) -> bool {
    // SAFETY: the helpers check the addresses; the pt_regs of a user task lie at the top of its kernel stack.
    unsafe {
        let task = bpf_get_current_task_btf();
        let mm = bpf_probe_read_kernel(task.cast::<u8>().add(settings().task_mm as usize).cast::<u64>());
        if mm.unwrap_or(0) == 0 {
            return false;
        }
        let regs = bpf_task_pt_regs(task) as *const u8;
        walk.pc = bpf_probe_read_kernel(regs.add(pt_regs::IP).cast()).unwrap_or(0);
        walk.sp = bpf_probe_read_kernel(regs.add(pt_regs::SP).cast()).unwrap_or(0);
        walk.bp = bpf_probe_read_kernel(regs.add(pt_regs::BP).cast()).unwrap_or(0);
    }
    walk.returned = 0;
    true
}

unsafe extern "C" fn native_step(_index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    let (frame, code) = native::step(&mut scratch.walk.native, &mut scratch.walk.tables, &UserMemory);
    push_native(scratch, frame.pc, frame.cfa);
    if code == end::RUNNING {
        return 0;
    }
    scratch.head.native_end = code;
    1
}

#[inline(always)]
pub(super) fn push_native(scratch: &mut Scratch, pc: u64, cfa: u64) {
    let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
    scratch.words[at] = pc;
    scratch.words[at + 1] = cfa;
    scratch.walk.cursor = (at + NATIVE_WORDS) as u64;
    scratch.head.native += 1;
}

/// Sends the head and as many words as were filled.
#[inline(always)]
fn send(scratch: &mut Scratch) {
    let words = scratch.walk.cursor & (SAMPLE_WORDS as u64 - 1);
    let bytes = size_of::<SampleHead>() as u64 + words * 8;
    let flags =
        if scratch.head.python > 0 && wake_is_due(scratch.head.head.at_ns) { WAKEUP } else { NO_WAKEUP };
    // SAFETY: head and words lie next to each other in the map's value, which holds more than `bytes`.
    let sent = unsafe {
        bpf_ringbuf_output(
            (&raw const EVENTS).cast_mut().cast(),
            (&raw mut scratch.head).cast(),
            bytes,
            flags,
        )
    };
    if sent != 0 {
        count(lost::SAMPLES);
    }
}

/// Whether user space should look now: code objects may be freed soon after they ran (modules while they are imported), and must be read
/// before. Every few milliseconds is enough, and costs little at any sampling rate.
#[inline(always)]
fn wake_is_due(now: u64) -> bool {
    const EVERY_NS: u64 = 3_000_000;
    let Some(state) = CPU_STATE.get_ptr_mut(0) else { return false };
    // SAFETY: the map's slot of this CPU; nothing else of this CPU writes this field.
    let state = unsafe { &mut *state };
    if now - state.woke_ns < EVERY_NS {
        return false;
    }
    state.woke_ns = now;
    true
}

/// This CPU's scratch.
#[inline(always)]
pub(super) fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: reads the CPU number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // SAFETY: one program at a time uses this CPU's value: perf events do not nest.
    SCRATCH.get_ptr_mut(cpu).map(|scratch| unsafe { &mut *scratch })
}

/// Calls `step` until it answers 1, `limit` times at most.
#[inline(always)]
pub(super) fn repeat(limit: u32, step: unsafe extern "C" fn(u32, *mut c_void) -> i64) {
    // SAFETY: `step` is a static function of the form that the helper expects; the verifier checks it as one.
    unsafe { bpf_loop(limit, step as *mut c_void, core::ptr::null_mut(), 0) };
}
