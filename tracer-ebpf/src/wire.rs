//! What travels between the BPF programs and user space: events, settings, counters. One definition for both sides.
//!
//! All structs are `repr(C)` without implicit padding; the asserts at the end keep their sizes.

/// Native frames that are taken between two gaps: imports of TensorFlow have 770. A sample holds as many as its Python frames leave words for.
pub const MAX_FRAMES: u32 = 1024;
/// Words of a sample in which no more native frames begin: room for those that are taken at once, and for marks.
pub const SPARE_WORDS: usize = 128;
/// Python frames and shims that a sample can hold: the interpreter's own limit is 1,000 unless a program raises it.
pub const MAX_PYTHON_FRAMES: u32 = 1536;
/// Kernel frames that a sample can hold.
pub const MAX_KERNEL_FRAMES: u32 = 127;
/// Words of frames that a sample can hold: a power of two, so that a mask bounds every index.
pub const SAMPLE_WORDS: usize = 8192;
/// Words of one native frame in a sample: pc, CFA.
pub const NATIVE_WORDS: usize = 2;
/// Words of one Python frame in a sample: code object, instruction pointer, anchor, class.
pub const PYTHON_WORDS: usize = 4;
/// Words of one code object that is new: address, what tells it from others (two), globals.
pub const CODE_WORDS: usize = 4;
/// New code objects that a sample can bring along: a power of two. What is left over comes with the next sample.
pub const MAX_FRESH_CODES: usize = 128;
/// Those whose texts it brings along, innermost first: a power of two. Callers live longer than what they call.
pub const MAX_TOLD_CODES: usize = 16;

/// Since when a process of the tracer itself is a target: never, not even while everybody else is.
pub const OURS: u64 = 0;

/// Places of the mapping pool.
pub const POOL_PLACES: u32 = 1 << 17;
/// Code mappings that a process may have: what the search for a mapping can tell apart. oneDNN maps each of its kernels by itself; a
/// process may have 65,530 mappings of all kinds (`vm.max_map_count`).
pub const MAX_PLACES: u32 = 1 << 14;
/// Row tables that the probes can use.
pub const MAX_TABLES: u32 = 4096;

/// Kinds of event, in `EventHead::kind`.
pub mod kind {
    /// A `SampleHead` with its frames.
    pub const SAMPLE: u32 = 1;
    /// A `SliceEvent`: time of a target.
    pub const SLICE: u32 = 2;
    /// A `TaskEvent`: a target made a process (`other` = the child's pid).
    pub const FORK: u32 = 3;
    /// A `TaskEvent`: a target became another program.
    pub const EXEC: u32 = 4;
    /// A `TaskEvent`: a thread of a target ended.
    pub const EXIT: u32 = 5;
    /// A `TaskEvent`: a target maps a file as code.
    pub const MMAP: u32 = 6;
    /// A `RawHead` with a copy of the user stack; the sample that it belongs to follows, with the same CPU, thread and time.
    pub const RAW: u32 = 7;
    /// A `SampleHead` with Python frames only: a thread of a target begins to wait, in this stack.
    pub const WAIT: u32 = 8;
    /// An `EventHead`: a thread begins to wait in the stack of its last `WAIT`.
    pub const WAIT_AGAIN: u32 = 9;
    /// A `WakeEvent`: a thread of a target woke another.
    pub const WAKE: u32 = 10;
    /// A `gpu::GpuEvent`: a call of a GPU library.
    pub const GPU: u32 = 11;
    /// A `SampleHead` with its frames: the stack of the call of a GPU library that follows, with the same thread and time.
    pub const GPU_STACK: u32 = 12;
    /// A `gpu::GpuName`.
    pub const GPU_NAME: u32 = 13;
    /// An `EventHead`, and behind it `CODE_WORDS` words for each code object of the sample that follows which no sample of this CPU held
    /// before: its address, what told it from others then (`code_check`), and the frame's globals.
    pub const CODES: u32 = 14;
    /// A `BackgroundEvent`: time of those who are not targets.
    pub const BACKGROUND: u32 = 15;
    /// A `TaskEvent`: the process of its head came into the recorded control group; to an agent, into another one.
    pub const JOIN: u32 = 16;
    /// An `EventHead`, and behind it a `ToldCode` for each of the code objects before it that is new to the CPU.
    pub const TOLD: u32 = 17;
}

/// What every event begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct EventHead {
    /// One of `kind`.
    pub kind: u32,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// Thread group of the thread that it is about.
    pub pid: u32,
    /// The thread that it is about.
    pub tid: u32,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
}

/// A target's time on a CPU; `head.at_ns` is its end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct SliceEvent {
    /// Kind `SLICE`.
    pub head: EventHead,
    /// When it came onto the CPU.
    pub start_ns: u64,
    /// CPU time of the thread since it began, at the end, by the scheduler's account; 0: not known.
    pub ran_ns: u64,
}

/// The thread of `head` was woken by another.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct WakeEvent {
    /// Kind `WAKE`.
    pub head: EventHead,
    /// Thread group of the thread that woke it.
    pub waker_pid: u32,
    /// The thread that woke it.
    pub waker_tid: u32,
}

/// Something in the life of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct TaskEvent {
    /// Kind `FORK`, `EXEC`, `EXIT` or `MMAP`.
    pub head: EventHead,
    /// The kernel's name of the thread.
    pub comm: [u8; 16],
    /// The other process, where there is one.
    pub other: u32,
    /// Zero.
    pub reserved: u32,
}

/// What a code object says of itself when a sample first holds it: it may be gone before user space reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct ToldCode {
    /// Its address.
    pub address: u64,
    /// What tells it from others.
    pub check: [u64; 2],
    /// Its first line.
    pub line: u64,
    /// Its name, from the string's length on, as much as there is room for.
    pub name: [u8; 192],
    /// Its file likewise.
    pub file: [u8; 384],
}

/// A stack sample; behind it lie `kernel` words (innermost first), `python * PYTHON_WORDS` words, `native * NATIVE_WORDS` words, and a
/// `context` in whole words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct SampleHead {
    /// Kind `SAMPLE`.
    pub head: EventHead,
    /// The kernel's name of the thread.
    pub comm: [u8; 16],
    /// Kernel frames.
    pub kernel: u16,
    /// Native frames.
    pub native: u16,
    /// Python frames and shims.
    pub python: u16,
    /// Why the native walk ended, an `End`.
    pub native_end: u8,
    /// Why the Python walk ended, an `End`.
    pub python_end: u8,
    /// Gaps in the native frames that were bridged.
    pub recovered: u8,
    /// Callers that were believed without proof; a gap stands at each.
    pub guessed: u8,
    /// Where the caller of the interrupted code was believed without proof: its stack pointer's bytes above the interrupted one; else 0.
    pub guess_depth: u16,
    /// Bytes of the record of the span that the thread works for (`thread_context`); 0: none.
    pub context: u16,
    /// Zero.
    pub reserved: [u8; 2],
    /// The path of ranges that the thread is in, as `ranges` has it; 0: none.
    pub range: u64,
}

/// Registers and a copy of the user stack, for user space to unwind; behind it lie `bytes` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct RawHead {
    /// Kind `RAW`; the rest is that of the sample.
    pub head: EventHead,
    /// Address of the first byte that was copied: where the page of the stack pointer begins.
    pub base: u64,
    /// Bytes of the copy: whole pages, up to the last one that could be read.
    pub bytes: u32,
    /// A bit for each page of the copy, the lowest for the first: 1 where it was read, 0 where it is a hole.
    pub pages: u32,
    /// User registers in the order of `struct pt_regs`, see `register`.
    pub registers: [u64; register::COUNT],
}

/// Pages of the user stack in a raw capture: at least 64 KiB above the stack pointer, as far as the stack goes. 16 KiB cut 40 % of
/// numpy's stacks, for one frame of OpenBLAS alone takes 12 KiB; 32 KiB cut 1 % of those of `import torch`.
pub const RAW_PAGES: usize = 17;
/// Bytes of a page, or of a part of a larger one.
pub const PAGE_BYTES: usize = 4096;

pub use crate::arch::register;
pub use crate::hotspot_layout::HotspotLayout;
pub use crate::on_cpu::{
    BY_TASK, BackgroundEvent, CpuState, MOST_TASKS, MOST_TOTALS, Run, SUMS, Sum, TaskTime, TotalKey, looks,
};
pub use crate::python_layout::PythonLayout;

/// A native frame whose pc is below this is no frame but a bridged gap: its pc is the `end` code of why it was there, its CFA that of
/// the interpreter's frame where the walk went on.
pub const FIRST_PC: u64 = 256;

/// Why a walk ended, in `SampleHead`.
pub mod end {
    /// At the outermost frame.
    pub const COMPLETE: u8 = 0;
    /// There was nothing to walk: no user registers, or not a Python thread.
    pub const NOTHING: u8 = 1;
    /// The process is not known yet.
    pub const NOT_READY: u8 = 2;
    /// The address belongs to no mapping.
    pub const UNMAPPED: u8 = 3;
    /// The code has no unwind information.
    pub const NO_UNWIND_INFO: u8 = 4;
    /// A rule that the walker does not know.
    pub const UNSUPPORTED: u8 = 5;
    /// Memory could not be read.
    pub const FAULT: u8 = 6;
    /// More frames than the limit.
    pub const TOO_DEEP: u8 = 7;
    /// The stack does not grow.
    pub const BAD_FRAME: u8 = 8;
    /// Native and Python frames do not match each other (said by user space, never by the probes).
    pub const UNANCHORED: u8 = 9;
    /// The stack goes on behind the end of its copy (said by user space).
    pub const BEYOND_COPY: u8 = 10;
    /// The process was gone before its memory map could be read (said by user space).
    pub const GONE: u8 = 11;
    /// No interpreter is known in this process, yet or at all (Python walks only).
    pub const NO_INTERPRETER: u8 = 12;
    /// The thread may run in any of several interpreters, and nothing tells in which.
    pub const AMBIGUOUS: u8 = 13;
    /// A Python frame's caller is no frame, or one that was passed before (Python walks only).
    pub const BROKEN_CHAIN: u8 = 14;
    /// Registers or memory of user mode could not be read at that moment: the kernel was just entered, or changed from one process's memory
    /// to another's.
    pub const UNREADABLE: u8 = 16;
    /// The code is that of a 32-bit program, whose frames are not walked.
    pub const BITS_32: u8 = 17;
    /// The walk has not ended (never in an event).
    pub const RUNNING: u8 = 255;
}

/// Settings that user space writes before the programs are loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Offset of `tgid` in `task_struct`.
    pub task_tgid: u32,
    /// Offset of `pid` in `task_struct`.
    pub task_pid: u32,
    /// Offset of `mm` in `task_struct`.
    pub task_mm: u32,
    /// Offset of the saved thread pointer in `task_struct`.
    pub task_thread_pointer: u32,
    /// Offset of `stack` in `task_struct` where the registers of user mode are to be looked for there; 0: the kernel has a helper for it.
    pub task_stack: u32,
    /// 1: every process is a target.
    pub system_wide: u32,
    /// The tracer itself, never a target of `-a`.
    pub tracer_pid: u32,
    /// 1: native frames are found by user space alone, from raw captures.
    pub unwind_user: u32,
    /// Offset of `__state` (`state` before 5.14) in `task_struct`.
    pub task_state: u32,
    /// Where the scratches of launches begin: behind those of all CPUs; 0: launches on GPUs are not traced.
    pub gpu: u32,
    /// Offset of `se.sum_exec_runtime` in `task_struct`.
    pub task_ran: u32,
    /// 1: how long pushes take is kept.
    pub push_times: u32,
    /// Offset of `in_execve` in `task_struct`, in bits; 0: not known.
    pub task_in_execve: u32,
    /// 1: CPU time is summed by process between readings of power, and nothing is sent of a switch; `BY_TASK`: tasks are asked for it then.
    pub totals: u32,
    /// 1: ranges are recorded.
    pub ranges: u32,
    /// Offset of `se.cfs_rq` in `task_struct`, where CPU time is summed and the kernel has it; else 0.
    pub task_queue: u32,
    /// Offset of `rq` in `cfs_rq`.
    pub queue_cpu: u32,
    /// Offset of `clock` in `rq`.
    pub cpu_clock: u32,
    /// Offset of the number of its CPU in `task_struct`, where tasks are asked.
    pub task_cpu: u32,
    /// Offset of `start_time` in `task_struct`.
    pub task_started: u32,
    /// 1: an agent, which reads nothing of processes that begin or end.
    pub always: u32,
    /// The user whose processes alone are targets, where `cred_euid` is not 0.
    pub user: u32,
    /// Offset of `cred` in `task_struct`.
    pub task_cred: u32,
    /// Offset of `euid` in `cred`; 0: targets may be anybody's.
    pub cred_euid: u32,
    /// Offset of `flags` in `mm_struct`.
    pub mm_flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Tasks that began before and were never looked at count from then on.
    pub since_ns: u64,
}

/// The control group that is recorded, and where kernel structs have what says which group a task is in. Written before the programs are loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// The group's number in its hierarchy, the inode of its folder; 0: no group is recorded.
    pub id: u64,
    /// The number of the hierarchy, as `/proc/PID/cgroup` has it; 0: that of the second version.
    pub hierarchy: u32,
    /// Offset of `kn` in `cgroup`.
    pub kernfs_node: u32,
    /// Offset of `id` in `kernfs_node`.
    pub node_id: u32,
    /// Offset of `self.parent` in `cgroup`.
    pub parent: u32,
    /// Offset of `root` in `cgroup`.
    pub root: u32,
    /// Offset of `hierarchy_id` in `cgroup_root`.
    pub root_hierarchy: u32,
    /// Offset of `cgroups` in `task_struct`.
    pub task_groups: u32,
    /// Offset of `dfl_cgrp` in `css_set`.
    pub default_group: u32,
    /// Zero.
    pub reserved: u64,
}

/// Counters of what was lost, the index into the `LOST` map.
pub mod lost {
    /// Samples that found no room in their ring buffer.
    pub const SAMPLES: u32 = 0;
    /// Slices that found no room in the ring buffer.
    pub const SLICES: u32 = 1;
    /// Process events that found no room in the ring buffer.
    pub const TASKS: u32 = 2;
    /// Processes that found no room in the map of targets.
    pub const TARGETS: u32 = 3;
    /// Kernel stacks that could not be read.
    pub const KERNEL_STACKS: u32 = 4;
    /// Samples taken (not a loss: what the others are measured against).
    pub const TAKEN: u32 = 5;
    /// Raw captures that found no room in the ring buffer; their samples are sent all the same.
    pub const RAWS: u32 = 6;
    /// Waits and wake-ups that found no room in the ring buffer.
    pub const WAITS: u32 = 7;
    /// Calls of GPU libraries that found no room in the ring buffer.
    pub const LAUNCHES: u32 = 8;
    /// Stacks of launches that were not taken because another thread's was being taken.
    pub const LAUNCH_STACKS: u32 = 9;
    /// Sights of new code objects that found no room in the ring buffer.
    pub const CODES: u32 = 10;
    /// Samples, or what belongs to them, that another CPU's hold on their ring buffer kept out.
    pub const SAMPLES_BUSY: u32 = 11;
    /// Other events that another's hold on the ring buffer kept out.
    pub const EVENTS_BUSY: u32 = 12;
    /// Stacks of launches, or what belongs to them, that found no room in the ring buffer.
    pub const LAUNCH_ROOM: u32 = 13;
    /// Turns on a CPU of processes that found no room in the maps of CPU time.
    pub const TOTALS: u32 = 14;
    /// Threads, paths and labels of ranges that found no room, or could not be read.
    pub const RANGES: u32 = 15;
    /// How many there are.
    pub const COUNT: u32 = 16;
}

/// How long pushes into the ring buffers took, the index into the `PUSH_TIMES` map: of each ring the longest, then how many were shorter than
/// each of the limits, and how many longer than all.
pub mod push {
    /// Where the buckets end.
    pub const LIMITS_NS: [u64; 7] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 250_000_000];
    /// Slots of each ring.
    pub const SLOTS: u32 = LIMITS_NS.len() as u32 + 2;
    /// Of the samples' ring.
    pub const SAMPLES: u32 = 0;
    /// Of the other events' ring.
    pub const EVENTS: u32 = SLOTS;
    /// How many there are.
    pub const COUNT: u32 = 2 * SLOTS;
}

/// Who writes what is known of processes, the index into the `CHANGES` map.
pub mod changes {
    /// The programs.
    pub const BY_PROGRAMS: u32 = 0;
    /// User space.
    pub const BY_USER: u32 = 1;
    /// How many there are.
    pub const COUNT: u32 = 2;
}

/// The code mappings of a process: a block of the mapping pool, its size a power of two, unused places filled with `u64::MAX`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    /// First place of the block.
    pub first: u32,
    /// Places in the block.
    pub places: u32,
    /// Differs from that of every block that was handed out before: what was looked up in another address space, or in this one before
    /// its mappings changed, does not count. Never 0.
    pub generation: u32,
}

/// A mapping of code.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What to subtract from an address to get the module's own (relative to its lowest address).
    pub bias: u64,
    /// Number of the row table; `NO_TABLE` while there is none, `NO_INFO` where there will never be one.
    pub table: u32,
    /// 1: the table is one chunk of rows, and has no index before it.
    pub one_chunk: u32,
}

impl CodeMapping {
    /// The table is not ready yet.
    pub const NO_TABLE: u32 = u32::MAX;
    /// The code has no unwind information at all (JIT, damaged file).
    pub const NO_INFO: u32 = u32::MAX - 1;
    /// A HotSpot makes this code at run time, and says itself what is known of it (`hotspot.rs`).
    pub const HOTSPOT: u32 = u32::MAX - 2;
    /// V8 makes this code at run time (`v8.rs`).
    pub const V8: u32 = u32::MAX - 3;
    /// An unused place.
    pub const UNUSED: Self = Self { start: u64::MAX, end: 0, bias: 0, table: Self::NO_INFO, one_chunk: 0 };
}

const _: () = {
    assert!(size_of::<EventHead>() == 24);
    assert!(size_of::<SliceEvent>() == 40);
    assert!(size_of::<TaskEvent>() == 48);
    assert!(size_of::<SampleHead>() == 64);
    assert!(size_of::<WakeEvent>() == 32);
    assert!(size_of::<ToldCode>() == 608);
    assert!(size_of::<Settings>() == 112);
    assert!(size_of::<GroupSettings>() == 48);
    assert!(size_of::<RawHead>() == 40 + 8 * register::COUNT);
    assert!(size_of::<AddressSpace>() == 12);
    assert!(size_of::<CodeMapping>() == 32);
    assert!(size_of::<crate::countdown::Countdown>() == 8);
    // Beside the most of Python's frames.
    const NATIVE_FRAMES: usize = 896;
    let words = NATIVE_FRAMES * NATIVE_WORDS
        + MAX_PYTHON_FRAMES as usize * PYTHON_WORDS
        + MAX_KERNEL_FRAMES as usize
        + SPARE_WORDS;
    assert!(words < SAMPLE_WORDS);
};

#[cfg(feature = "user")]
mod user {
    use super::{AddressSpace, CodeMapping, GroupSettings, PythonLayout, Settings};
    use crate::countdown::Countdown;

    // SAFETY: `repr(C)` integers without padding (the asserts above): every bit pattern is a value.
    unsafe impl aya::Pod for Settings {}
    // SAFETY: as above.
    unsafe impl aya::Pod for GroupSettings {}
    // SAFETY: as above.
    unsafe impl aya::Pod for AddressSpace {}
    // SAFETY: as above.
    unsafe impl aya::Pod for CodeMapping {}
    // SAFETY: as above.
    unsafe impl aya::Pod for PythonLayout {}
    // SAFETY: as above, two words of 32 bits.
    unsafe impl aya::Pod for Countdown {}
}
