//! The memory in which a CPU walks stacks: too much for a program's own, and whose turn it is.
//!
//! Leaves out the walks.

use super::maps::settings;
use super::seen_codes::{RecentCodes, SeenCodes};
use super::tables::ProcessTables;
use super::user_window::Window;
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use tracer_ebpf::gpu::GpuEvent;
use tracer_ebpf::native::{Candidates, NativeWalk};
use tracer_ebpf::python::PythonWalk;
use tracer_ebpf::unwind_row_cache::UnwindRowCache;
use tracer_ebpf::wire::{PythonLayout, SAMPLE_WORDS, SampleHead, end, register};

/// Where a CPU builds a sample: too large for the stack, and for a per-CPU map (32 KiB a value).
#[repr(C)]
pub(crate) struct Scratch {
    // What every sample touches lies together, the ends of `rules` and `codes` too: between two samples the target's work pushes each
    // page's address out of the TLB.
    pub(crate) rules: UnwindRowCache,
    pub(crate) codes: RecentCodes,
    pub(crate) walk: Walks,
    pub(crate) window: Window,
    pub(crate) head: SampleHead,
    /// The frames, and room behind the mask for the last one's words.
    pub(crate) words: [u64; SAMPLE_WORDS + 8],
    pub(crate) seen: SeenCodes,
    /// Of a launch whose stack is walked.
    pub(crate) launch: GpuEvent,
}

/// Scratch by CPU; its size is set by user space to the CPUs that there may ever be.
#[map]
pub(crate) static SCRATCH: Array<Scratch> = Array::with_max_entries(1, 0);

/// 1 while a launch's stack is walked on this CPU, and no sample is taken in the middle of it.
#[map]
static WALKING: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// The state of both walks, in the scratch map.
#[repr(C)]
pub(crate) struct Walks {
    pub(super) process: LastProcess,
    /// Of `process`, where it has an interpreter.
    pub(super) layout: PythonLayout,
    pub(super) python: PythonWalk,
    pub(super) thread_pointer: u64,
    /// A thread state that is being looked at, then the one that was found.
    pub(super) thread: u64,
    pub(super) native: NativeWalk,
    /// A walk that takes a step by a rule that few frames have.
    pub(super) rare: NativeWalk,
    /// A walk that a scan tries.
    pub(super) trial: NativeWalk,
    /// The registers with which user mode was left.
    pub(super) registers: [u64; register::COUNT],
    /// The kernel's stack pointer where the kernel was interrupted, else 0.
    pub(super) kernel_sp: u64,
    /// The stack pointer at which the native walk began.
    pub(super) lowest: u64,
    /// Of `process`, where it has an address space.
    pub(crate) tables: ProcessTables,
    /// Words of frames so far.
    pub(crate) cursor: u64,
    /// What a scan has come across, and the words that scans have looked at so far.
    pub(super) candidates: Candidates,
    pub(super) scanned: u64,
    /// Anchors of Python runs, innermost first, and how many there are; then the one that is next for native frames.
    pub(super) anchors: [u64; MAX_ANCHORS],
    pub(super) anchor: u64,
}

/// Anchors that are kept: a power of two. Deeper nesting of interpreters is not bridged.
pub(super) const MAX_ANCHORS: usize = 32;
/// Frames that one call of a step takes: calls cost, and so does what the verifier has to look at.
pub(super) const STEPS: u32 = 2;

/// What the last sample knew of its process (`last_process.rs`); all zero is nothing.
#[repr(C)]
pub(crate) struct LastProcess {
    /// Both counters together, as they were before the maps were asked.
    pub(super) changes: u64,
    /// 0: none.
    pub(super) pid: u32,
    /// 1: `Walks::layout` is its interpreter's.
    pub(super) python: u32,
    /// 1: `Walks::tables` are its own.
    pub(super) tables: u32,
}

impl LastProcess {
    /// Whether there is an interpreter.
    #[inline(always)]
    pub(super) fn has_python(&self) -> bool {
        self.python != 0
    }

    /// Whether there is an address space.
    #[inline(always)]
    pub(super) fn has_tables(&self) -> bool {
        self.tables != 0
    }
}

/// How a walk ended. The scratch is looked up anew: the steps wrote to it behind the back of any reference.
#[inline(always)]
pub(super) fn walked(ended: impl Fn(&SampleHead) -> u8) -> u8 {
    match scratch().map(|scratch| ended(&scratch.head)) {
        Some(end::RUNNING) => end::TOO_DEEP,
        Some(code) => code,
        None => end::NOTHING,
    }
}

/// This CPU's scratch.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: reads the CPU number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // SAFETY: one program at a time uses this CPU's value: perf events do not nest, and launches have values of their own.
    SCRATCH.get_ptr_mut(cpu + scratch_offset()).map(|scratch| unsafe { &mut *scratch })
}

/// Copies a layout, word by word: the compiler would read all of it first, onto a stack that has no room for it.
#[inline(always)]
pub(super) fn copy_layout(from: &PythonLayout, to: &mut PythonLayout) {
    let (from, to) = ((&raw const *from).cast::<u64>(), (&raw mut *to).cast::<u64>());
    for word in 0..size_of::<PythonLayout>() / 8 {
        // SAFETY: both have so many words; volatile, for their order.
        unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
    }
}

/// Calls `step` until it answers 1, `limit` times at most; says whether it did.
///
/// `step` calls a function with a global name (Linux 5.6), of which the verifier takes any answer for possible: a turn is a handful of
/// instructions to it. `bpf_loop` would do the same from 5.17 on only, and has the step looked at again wherever it is called.
#[inline(always)]
pub(super) fn repeat(limit: u32, step: impl Fn(u32) -> u32) -> bool {
    for turn in 0..limit {
        if step(turn) != 0 {
            return true;
        }
    }
    false
}

/// A sample begins on this CPU: the walkers are its own until `resume`, which gets what this gives.
#[inline(always)]
pub(super) fn pause() -> u64 {
    if settings().gpu == 0 {
        return 0;
    }
    walking().map_or(0, |walking| core::mem::replace(walking, 0))
}

/// The sample ended.
#[inline(always)]
pub(super) fn resume(paused: u64) {
    if settings().gpu != 0
        && let Some(walking) = walking()
    {
        *walking = paused;
    }
}

/// By how many places the scratch of who walks now lies behind that of samples.
#[inline(always)]
pub(super) fn scratch_offset() -> u32 {
    if settings().gpu == 0 {
        return 0;
    }
    if walking().is_some_and(|walking| *walking != 0) { settings().gpu } else { 0 }
}

/// Whether a launch's stack is walked on this CPU.
#[inline(always)]
pub(super) fn walking() -> Option<&'static mut u64> {
    // SAFETY: this CPU's value; who interrupts puts back what it found.
    WALKING.get_ptr_mut(0).map(|walking| unsafe { &mut *walking })
}
