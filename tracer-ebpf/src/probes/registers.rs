//! The registers with which user mode was left, and the thread pointer.

use super::maps::settings;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel as bpf_probe_read_kernel_raw, bpf_task_pt_regs};
use aya_ebpf::helpers::{bpf_get_current_task, bpf_get_current_task_btf, bpf_probe_read_kernel};
use tracer_ebpf::arch::kernel::{SAVED_BYTES, STACK_BYTES};
use tracer_ebpf::reach::are_being_saved;
use tracer_ebpf::wire::{end, register};

/// The thread pointer of `current`.
#[inline(always)]
pub(crate) fn thread_pointer() -> Option<u64> {
    // SAFETY: the helper checks the address.
    unsafe {
        let task = bpf_get_current_task() as *const u8;
        bpf_probe_read_kernel(task.add(settings().task_thread_pointer as usize).cast::<u64>()).ok()
    }
}

/// `struct pt_regs` of a user task.
type Registers = [u64; register::COUNT];

/// Reads the registers with which `current` left user mode; why it cannot, as an `end` code: a kernel thread, a worker of io_uring, and
/// one that has given its memory back, have none, and while the kernel is being entered they are not saved yet. `kernel_sp` is where that was interrupted, or 0.
#[inline(always)]
pub(crate) fn user_registers(into: &mut Registers, kernel_sp: u64) -> Result<(), u8> {
    // SAFETY: the helpers check the addresses, and write as many bytes as there are.
    unsafe {
        let task = bpf_get_current_task() as *const u8;
        let mm = bpf_probe_read_kernel(task.add(settings().task_mm as usize).cast::<u64>());
        if mm.unwrap_or(0) == 0 {
            return Err(end::NOTHING);
        }
        let bytes = size_of::<Registers>() as u32;
        // By way of the map, where the verifier forgets that it is a pointer: it does not compare those with numbers.
        into.as_mut_ptr().write_volatile(saved_at(task));
        let saved = into.as_ptr().read_volatile();
        if are_being_saved(kernel_sp, saved, u64::from(bytes)) {
            return Err(end::UNREADABLE);
        }
        if bpf_probe_read_kernel_raw(into.as_mut_ptr().cast(), bytes, saved as *const _) != 0 {
            return Err(end::NOTHING);
        }
        // A worker of the kernel's in the process's memory (io_uring) was never in user mode: no address lies there (`copy_thread`,
        // arch/x86/kernel/process.c, v5.12).
        if into[register::PC] == 0 && into[register::SP] == 0 { Err(end::NOTHING) } else { Ok(()) }
    }
}

/// Where they lie. Before 5.15 there is no helper to ask, and they are at the top of the kernel stack (`task_pt_regs`,
/// arch/x86/include/asm/processor.h, v5.10); the verifier knows the setting and does not look at the way that is not taken.
///
/// # Safety
/// `task` is the current task.
#[inline(always)]
unsafe fn saved_at(task: *const u8) -> u64 {
    let stack_field = settings().task_stack;
    // SAFETY: helpers on the current task; a read that fails gives an address that cannot be read either.
    unsafe {
        if stack_field == 0 {
            return bpf_task_pt_regs(bpf_get_current_task_btf()) as u64;
        }
        let stack = bpf_probe_read_kernel(task.add(stack_field as usize).cast::<u64>()).unwrap_or(0);
        stack + STACK_BYTES - SAVED_BYTES
    }
}
