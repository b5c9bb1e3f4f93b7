//! The BPF programs: the hooks and only the hooks, one call each.
//!
//! On the host this is an empty program, so that the workspace builds there.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod probes;

#[cfg(target_arch = "bpf")]
mod hooks {
    //! One attribute and one call each.

    use crate::probes::{count, gpu, groups, ranges, sample, sched, tasks, totals, waits};
    use aya_ebpf::macros::{btf_tracepoint, perf_event, raw_tracepoint, tracepoint, uprobe, uretprobe};
    use aya_ebpf::programs::{
        BtfTracePointContext, PerfEventContext, ProbeContext, RawTracePointContext, RetProbeContext,
        TracePointContext,
    };

    #[perf_event]
    fn on_sample(ctx: PerfEventContext) -> u32 {
        sample::take(&ctx);
        0
    }

    #[raw_tracepoint(tracepoint = "sched_switch")]
    fn on_switch(_ctx: RawTracePointContext) -> i32 {
        sched::leave_cpu();
        0
    }

    /// In the place of `on_switch` where CPU time is summed.
    #[btf_tracepoint(function = "sched_switch")]
    fn on_turn(ctx: BtfTracePointContext) -> i32 {
        totals::leave_cpu(ctx.arg(1));
        0
    }

    /// In the place of `on_turn` for an agent: whenever user space wants to know, of each task.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    extern "C" fn on_task(ctx: *const [*const u8; 2]) -> i32 {
        totals::look(ctx);
        0
    }

    /// The same of a task that is no more.
    #[btf_tracepoint(function = "sched_process_free")]
    fn on_free(ctx: BtfTracePointContext) -> i32 {
        totals::freed(ctx.arg(0));
        0
    }

    /// Attached to nothing: user space runs it on a CPU.
    #[raw_tracepoint(tracepoint = "sched_switch")]
    fn on_reading(ctx: RawTracePointContext) -> i32 {
        totals::read(ctx.arg::<u64>(0));
        0
    }

    #[raw_tracepoint(tracepoint = "sched_waking")]
    fn on_waking(ctx: RawTracePointContext) -> i32 {
        waits::wake(ctx.arg::<*const u8>(0));
        0
    }

    #[raw_tracepoint(tracepoint = "sched_process_fork")]
    fn on_fork(ctx: RawTracePointContext) -> i32 {
        tasks::fork(ctx.arg::<*const u8>(0), ctx.arg::<*const u8>(1));
        0
    }

    #[raw_tracepoint(tracepoint = "cgroup_attach_task")]
    fn on_attach(ctx: RawTracePointContext) -> i32 {
        groups::moved(ctx.arg::<*const u8>(0), ctx.arg::<*const u8>(2));
        0
    }

    #[raw_tracepoint(tracepoint = "sched_process_exec")]
    fn on_exec(ctx: RawTracePointContext) -> i32 {
        tasks::exec(&ctx);
        0
    }

    #[raw_tracepoint(tracepoint = "sched_process_exit")]
    fn on_exit(_ctx: RawTracePointContext) -> i32 {
        tasks::exit();
        0
    }

    #[tracepoint(category = "syscalls", name = "sys_enter_mmap")]
    fn on_mmap(ctx: TracePointContext) -> u32 {
        tasks::mmap(&ctx);
        0
    }

    #[uprobe]
    fn on_gpu_call(ctx: ProbeContext) -> u32 {
        gpu::enter(&ctx);
        0
    }

    #[uretprobe]
    fn on_gpu_return(ctx: RetProbeContext) -> u32 {
        gpu::leave(&ctx);
        0
    }

    #[uprobe]
    fn on_counted_call(ctx: ProbeContext) -> u32 {
        count::enter(&ctx);
        0
    }

    #[uprobe]
    fn on_range(ctx: ProbeContext) -> u32 {
        ranges::told(&ctx);
        0
    }

    #[uprobe]
    fn on_mark(ctx: ProbeContext) -> u32 {
        ranges::passed(&ctx);
        0
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}
