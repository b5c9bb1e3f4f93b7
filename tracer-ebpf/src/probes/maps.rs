//! The maps of the BPF side (those of one program alone are there), the settings, and what is read of `current` everywhere.

use aya_ebpf::btf_maps::{Array as BtfArray, ArrayOfMaps};
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use core::arch::asm;
use tracer_ebpf::countdown::Countdown;
use tracer_ebpf::rows::{CHUNK_ROWS, FullRule, MAX_FULL_RULES};
use tracer_ebpf::thread_context::ThreadVariable;
use tracer_ebpf::wire::{
    AddressSpace, CodeMapping, CpuState, EventHead, HotspotLayout, MAX_TABLES, OURS, POOL_PLACES,
    PythonLayout, Settings, lost,
};

/// Written by user space before loading.
#[unsafe(no_mangle)]
pub(super) static SETTINGS: Settings = Settings {
    task_tgid: 0,
    task_pid: 0,
    task_mm: 0,
    task_thread_pointer: 0,
    task_stack: 0,
    system_wide: 0,
    tracer_pid: 0,
    unwind_user: 0,
    task_state: 0,
    gpu: 0,
    task_ran: 0,
    push_times: 0,
    task_in_execve: 0,
    totals: 0,
    ranges: 0,
    task_queue: 0,
    queue_cpu: 0,
    cpu_clock: 0,
    task_cpu: 0,
    task_started: 0,
    always: 0,
    user: 0,
    task_cred: 0,
    cred_euid: 0,
    mm_flags: 0,
    reserved: 0,
    since_ns: 0,
};

/// The processes that are targets, and when they became it: as many as have an address space. While everybody is a target: the tracer's own
/// processes, which are none, with `wire::OURS`.
#[map]
pub(crate) static TARGETS: HashMap<u32, u64> = HashMap::with_max_entries(16384, 0);

/// What each CPU is doing.
#[map]
pub(crate) static CPU_STATE: PerCpuArray<CpuState> = PerCpuArray::with_max_entries(1, 0);

/// Which ticks of its event a CPU samples; user space sets it before the event is opened.
#[map]
pub(crate) static COUNTDOWN: PerCpuArray<Countdown> = PerCpuArray::with_max_entries(1, 0);

/// Counters, see `wire::lost`.
#[map]
pub(crate) static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(lost::COUNT, 0);

/// The block of `MAPPINGS` of each process.
#[map]
pub(crate) static ADDRESS_SPACES: HashMap<u32, AddressSpace> = HashMap::with_max_entries(16384, 0);

/// The pool of code mappings.
#[map]
pub(crate) static MAPPINGS: Array<CodeMapping> = Array::with_max_entries(POOL_PLACES, 0);

/// CPython's layout in each process that has one.
#[map]
pub(crate) static PYTHONS: HashMap<u32, PythonLayout> = HashMap::with_max_entries(16384, 0);

/// Where the HotSpot of each process that has one keeps what is needed.
#[map]
pub(crate) static HOTSPOTS: HashMap<u32, HotspotLayout> = HashMap::with_max_entries(1024, 0);

/// Where the threads of each process have their span's record. User space makes it larger where ranges are recorded.
#[map]
pub(crate) static CONTEXTS: HashMap<u32, ThreadVariable> = HashMap::with_max_entries(1, 0);

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE`: inner maps may differ in their number of entries, and user space fills them through mmap. The
/// flags of the maps that it makes must be the same (include/uapi/linux/bpf.h, v5.10).
const INNER_MAP: usize = 0x1000 | 0x400;

/// A chunk of rows.
pub(crate) type Chunk = [u64; CHUNK_ROWS];

/// Row tables: one inner map a file, one entry a chunk.
#[btf_map]
pub(crate) static ROWS: ArrayOfMaps<BtfArray<Chunk, 1, INNER_MAP>, { MAX_TABLES as usize }> =
    ArrayOfMaps::new();

/// Rules in full, shared by all row tables.
#[map]
pub(crate) static FULL_RULES: Array<FullRule> = Array::with_max_entries(MAX_FULL_RULES, 0);

/// A setting, as user space wrote it.
#[inline(always)]
pub(crate) fn settings() -> Settings {
    // SAFETY: the static is initialized, and volatile keeps the compiler from using the value it was compiled with.
    unsafe { core::ptr::read_volatile(&raw const SETTINGS) }
}

/// One field of the settings: all are a load each.
#[inline(always)]
pub(super) fn setting(field: &'static u32) -> u32 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(field) }
}

/// A field of a struct whose type the kernel knows: it is read as if it were ours, and the verifier sees to it that it is one.
///
/// # Safety
/// The kernel gave the address as one of such a struct.
#[inline(always)]
pub(super) unsafe fn field<T>(base: *const u8, offset: u32) -> T {
    // SAFETY: as the caller says.
    unsafe { core::ptr::read_volatile(base.wrapping_add(offset as usize).cast()) }
}

/// Whether CPU time is summed and nothing sent of a switch.
#[inline(always)]
pub(crate) fn sums_time() -> bool {
    setting(&SETTINGS.totals) != 0
}

/// Whether for an agent, which reads nothing of processes that begin or end.
#[inline(always)]
pub(crate) fn is_always_on() -> bool {
    setting(&SETTINGS.always) != 0
}

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(what: u32) {
    if let Some(counter) = LOST.get_ptr_mut(what) {
        add_one(counter);
    }
}

/// Adds one to a number in a map, in one instruction: a sample, or an interrupt's program, may come at any point.
#[inline(always)]
pub(super) fn add_one(number: *mut u64) {
    // SAFETY: a slot of a map, which programs change in this way only. The standard library's additions want the old value back, which
    // programs cannot have before 5.12.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) number, in(reg) 1u64) };
}

/// Whether a process is a target.
#[inline(always)]
pub(crate) fn is_target(pid: u32) -> bool {
    if setting(&SETTINGS.system_wide) != 0 {
        return pid != setting(&SETTINGS.tracer_pid) && !is_ours(pid);
    }
    // SAFETY: the value is not kept.
    unsafe { TARGETS.get(&pid) }.is_some()
}

/// Whether a process is the tracer's own, while all others are targets.
#[inline(always)]
pub(crate) fn is_ours(pid: u32) -> bool {
    // SAFETY: the value is copied at once.
    unsafe { TARGETS.get(&pid) }.is_some_and(|since| *since == OURS)
}

/// (thread group, thread) of `current`.
#[inline(always)]
pub(crate) fn current() -> (u32, u32) {
    let both = bpf_get_current_pid_tgid();
    ((both >> 32) as u32, both as u32)
}

/// The head of an event about a thread, now and here.
#[inline(always)]
pub(crate) fn head(kind: u32, pid: u32, tid: u32) -> EventHead {
    // SAFETY: only reads the clock.
    head_at(kind, pid, tid, unsafe { bpf_ktime_get_ns() })
}

/// The same of a moment that is known.
#[inline(always)]
pub(crate) fn head_at(kind: u32, pid: u32, tid: u32, at_ns: u64) -> EventHead {
    // SAFETY: only reads the CPU number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    EventHead { kind, cpu, pid, tid, at_ns }
}
