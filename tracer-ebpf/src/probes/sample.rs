//! Takes a stack sample: kernel frames by the kernel's own helper, Python frames from the thread state, native frames by row tables.
//!
//! Both walks are `bpf_loop` callbacks over state in the scratch map: the verifier looks at one step, whatever the depth. A walk that
//! cannot go on says why; the sample is sent all the same.

use super::kernel_frames::kernel_frames;
use super::maps::{PYTHONS, SCRATCH, Scratch, count, current, head, is_target, settings};
use super::raw;
use super::rule_cache::{CachedTables, RuleCache};
use super::scan;
use super::send::send;
use super::tables::ProcessTables;
use super::user_memory::{FrameMemory, StackMemory, UserMemory, Window};
use aya_ebpf::helpers::generated::{
    bpf_loop, bpf_probe_read_kernel as bpf_probe_read_kernel_raw, bpf_task_pt_regs,
};
use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_get_current_task, bpf_get_current_task_btf, bpf_get_smp_processor_id,
    bpf_probe_read_kernel,
};
use aya_ebpf::programs::PerfEventContext;
use core::ffi::c_void;
use tracer_ebpf::native::{self, MAX_HEALED, NativeWalk, place};
use tracer_ebpf::python::{self, MAX_THREADS, PythonWalk, Step};
use tracer_ebpf::wire::{
    MAX_FRAMES, MAX_PYTHON_FRAMES, NATIVE_WORDS, PYTHON_WORDS, PythonLayout, SAMPLE_WORDS, SampleHead, end,
    kind, lost, register,
};

/// The state of both walks, in the scratch map.
#[repr(C)]
pub(crate) struct Walks {
    layout: PythonLayout,
    python: PythonWalk,
    fsbase: u64,
    /// A thread state that is being looked at, then the one that was found.
    thread: u64,
    pub(super) native: NativeWalk,
    /// The registers with which user mode was left.
    registers: [u64; register::COUNT],
    /// The stack pointer at which the native walk began.
    lowest: u64,
    pub(crate) tables: ProcessTables,
    /// Words of frames so far.
    pub(crate) cursor: u64,
    /// 1: a scan found a caller.
    pub(super) found: u64,
    /// Anchors of Python runs, innermost first, and how many there are; then the one that is next for native frames.
    anchors: [u64; MAX_ANCHORS],
    anchor: u64,
}

/// Anchors that are kept: a power of two. Deeper nesting of interpreters is not bridged.
const MAX_ANCHORS: usize = 32;
/// Frames that one call of a callback takes: calls cost, and so does what the verifier has to look at.
const STEPS: u32 = 2;

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
    begun.seen.begin();
    begun.head.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    kernel_frames(ctx, begun);
    let python_end = python_frames(pid);
    let native_end = native_frames(pid);
    let Some(done) = scratch() else { return };
    done.head.python_end = python_end;
    done.head.native_end = native_end;
    if raw::is_wanted(native_end) {
        raw::send(&done.head.head);
    }
    send(done);
}

/// Python frames; why they end.
#[inline(always)]
fn python_frames(pid: u32) -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    // SAFETY: the value is copied at once.
    let Some(layout) = (unsafe { PYTHONS.get(&pid) }) else { return end::NO_INTERPRETER };
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
    if let Some(thread) = python::running_thread(&walk.layout, fsbase, &UserMemory) {
        walk.thread = thread;
        return begin_python();
    }
    let mut sure = walk.layout.key_follows == 1;
    match python::thread_by_key(&walk.layout, fsbase, &UserMemory) {
        Some(thread) => walk.thread = thread,
        None => {
            if !find_thread(walk) {
                return end::NOTHING;
            }
            sure = false;
        }
    }
    if !sure && has_other_state() {
        return end::AMBIGUOUS;
    }
    begin_python()
}

/// Whether the thread that was found may run in another interpreter than the one in whose list it stands.
#[inline(always)]
fn has_other_state() -> bool {
    let Some(scratch) = scratch() else { return false };
    let walk = &scratch.walk;
    python::is_thread(&walk.layout, walk.thread, walk.fsbase, &UserMemory)
        && python::has_sub_interpreters(&walk.layout, &UserMemory)
}

/// Walks from the thread's state, if there is one.
#[inline(always)]
fn begin_python() -> u8 {
    let Some(scratch) = scratch() else { return end::NOTHING };
    let walk = &mut scratch.walk;
    if let Err(code) = python::begin(&walk.layout, walk.thread, &mut walk.python, &UserMemory) {
        return code;
    }
    scratch.head.python_end = end::RUNNING;
    scratch.window.clear();
    repeat(MAX_PYTHON_FRAMES / STEPS, python_step);
    walked(|head| head.python_end)
}

/// Looks for the thread's state in the interpreter's list.
#[inline(always)]
fn find_thread(walk: &mut Walks) -> bool {
    walk.thread = python::first_thread(&walk.layout, &UserMemory).unwrap_or(0);
    repeat(MAX_THREADS, thread_step);
    scratch().is_some_and(|scratch| {
        let walk = &scratch.walk;
        python::is_thread(&walk.layout, walk.thread, walk.fsbase, &UserMemory)
    })
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
    for _ in 0..STEPS {
        if take_python(scratch) {
            return 1;
        }
    }
    0
}

/// Takes one Python frame; true at the end of the walk.
#[inline(always)]
fn take_python(scratch: &mut Scratch) -> bool {
    let memory = FrameMemory { window: &raw mut scratch.window };
    match python::step(&scratch.walk.layout, &mut scratch.walk.python, &memory) {
        Step::Frame(frame) => {
            let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
            scratch.words[at] = frame.code;
            scratch.words[at + 1] = frame.instruction;
            scratch.words[at + 2] = frame.anchor;
            scratch.words[at + 3] = frame.class;
            scratch.walk.cursor = (at + PYTHON_WORDS) as u64;
            scratch.head.python += 1;
            keep_anchor(&mut scratch.walk, frame.anchor);
            scratch.seen.add(frame.code, scratch.head.head.pid);
        }
        Step::Restart => {
            scratch.head.python = 0;
            scratch.walk.cursor = u64::from(scratch.head.kernel);
            scratch.walk.anchor = 0;
            scratch.walk.anchors[0] = 0;
        }
        Step::End(code) => {
            scratch.head.python_end = code;
            return true;
        }
    }
    false
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
    if !user_registers(&mut begun.walk) {
        return end::NOTHING;
    }
    let tables = if settings().unwind_user == 0 { ProcessTables::of(pid) } else { None };
    let Some(tables) = tables else {
        push_native(begun, begun.walk.native.pc, 0);
        return end::NOT_READY;
    };
    begun.walk.tables = tables;
    begun.walk.lowest = begun.walk.native.sp;
    begun.window.clear();
    begun.walk.anchor = 0;
    let mut code = end::NOTHING;
    for _ in 0..=MAX_HEALED {
        code = walk_native() as u8;
        if matches!(code, end::COMPLETE | end::TOO_DEEP) || heal_native(u32::from(code)) == 0 {
            break;
        }
    }
    code
}

/// Walks until the walk ends; why it does. Like the next one it has a global name, so that the verifier looks at it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_native() -> u32 {
    let Some(scratch) = scratch() else { return u32::from(end::NOTHING) };
    scratch.head.native_end = end::RUNNING;
    repeat(MAX_FRAMES / STEPS, native_step);
    u32::from(walked(|head| head.native_end))
}

/// Bridges a gap where it can; says whether.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn heal_native(code: u32) -> u32 {
    u32::from(heal(code as u8))
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
    if u32::from(before.head.native) >= MAX_FRAMES {
        return false; // So that the words of all parts fit.
    }
    if code == end::NO_UNWIND_INFO {
        scan::scan(before);
    } else if raw::is_left_to_user_space(code) {
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
    let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &mut scratch.window);
    let Some(found) = native::scan(&scratch.walk.native, address, &mut tables, &memory) else { return 0 };
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
fn user_registers(walk: &mut Walks) -> bool {
    // SAFETY: the helpers check the addresses; the pt_regs of a user task lie at the top of its kernel stack.
    unsafe {
        let task = bpf_get_current_task_btf();
        let mm = bpf_probe_read_kernel(task.cast::<u8>().add(settings().task_mm as usize).cast::<u64>());
        if mm.unwrap_or(0) == 0 {
            return false;
        }
        let regs = bpf_task_pt_regs(task) as *const c_void;
        let bytes = size_of_val(&walk.registers) as u32;
        if bpf_probe_read_kernel_raw(walk.registers.as_mut_ptr().cast(), bytes, regs) != 0 {
            return false;
        }
    }
    walk.native = NativeWalk {
        pc: walk.registers[register::RIP],
        sp: walk.registers[register::RSP],
        bp: walk.registers[register::RBP],
        returned: 0,
        bx_at: place::INTERRUPTED,
        others_at: place::INTERRUPTED,
    };
    true
}

/// A register of the code that was interrupted, by DWARF's number.
#[inline(always)]
pub(crate) fn interrupted_register(number: u32) -> Option<u64> {
    scratch()?.walk.registers.get(register::of_dwarf(number)).copied()
}

unsafe extern "C" fn native_step(_index: u32, _ctx: *mut c_void) -> i64 {
    let Some(scratch) = scratch() else { return 1 };
    for _ in 0..STEPS {
        let (mut tables, memory) = native_world(&scratch.walk, &mut scratch.rules, &mut scratch.window);
        let (frame, code) = native::step(&mut scratch.walk.native, &mut tables, &memory);
        push_native(scratch, frame.pc, frame.cfa);
        if code != end::RUNNING {
            scratch.head.native_end = code;
            return 1;
        }
    }
    0
}

/// What the native walk reads, in parts of the scratch.
#[inline(always)]
pub(super) fn native_world<'a>(
    walk: &Walks,
    cache: &'a mut RuleCache,
    window: &mut Window,
) -> (CachedTables<'a>, StackMemory) {
    let tables = CachedTables { generation: walk.tables.generation(), cache };
    (tables, StackMemory { window, lowest: walk.lowest })
}

#[inline(always)]
pub(super) fn push_native(scratch: &mut Scratch, pc: u64, cfa: u64) {
    let at = scratch.walk.cursor as usize & (SAMPLE_WORDS - 1);
    scratch.words[at] = pc;
    scratch.words[at + 1] = cfa;
    scratch.walk.cursor = (at + NATIVE_WORDS) as u64;
    scratch.head.native += 1;
}

/// This CPU's scratch.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
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
