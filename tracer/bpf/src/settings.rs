//! What the probes are told about the running kernel: where its structs have their fields, and which helpers it lacks.
//!
//! They run on Linux 5.10 and later: inner maps of different sizes are from then (`BPF_F_INNER_MAP`). Newer helpers are called only
//! where the kernel's types name them; the verifier knows the settings and does not look at a way that is never taken.

use super::arch::{FINDS_REGISTERS, TASK_THREAD_POINTER};
use super::btf::{KERNEL, KernelTypes};
use super::error::ProbeError;
use crate::config::{GroupId, TraceConfig};
use energy_trace_model::recording::record::Unwinding;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tracer_ebpf::wire::{BY_TASK, GroupSettings, Settings};

/// Reads what the running kernel is like.
pub(crate) fn read_settings(config: &TraceConfig) -> Result<(Settings, GroupSettings), ProbeError> {
    let types = KernelTypes::read(Path::new(KERNEL))?;
    let group = config.group.map(|group| group_settings(&types, group)).transpose()?;
    let offset = |field| types.offset_of("task_struct", field);
    let looks_for_registers = config.oldest_kernel || !tells_registers(&types);
    if looks_for_registers && !FINDS_REGISTERS {
        let text = "on this processor they need Linux 5.15 or later".to_owned();
        return Err(ProbeError::Load { text, errno: None });
    }
    // Moved in 5.16.
    let task_cpu = offset("thread_info.cpu").or_else(|_| offset("cpu")).unwrap_or(0);
    let settings = Settings {
        task_tgid: offset("tgid")?,
        task_pid: offset("pid")?,
        task_mm: offset("mm")?,
        task_thread_pointer: offset(TASK_THREAD_POINTER)?,
        task_stack: if looks_for_registers { offset("stack")? } else { 0 },
        system_wide: u32::from(config.system_wide),
        tracer_pid: std::process::id(),
        unwind_user: u32::from(config.unwinding == Unwinding::User),
        // Renamed in 5.14.
        task_state: offset("__state").or_else(|_| offset("state"))?,
        gpu: 0,
        task_ran: offset("se.sum_exec_runtime")?,
        push_times: u32::from(config.push_times),
        task_in_execve: types.bit_of("task_struct", "in_execve").unwrap_or(0),
        totals: match config.sum_time {
            true if config.live && task_cpu != 0 && sees_all_tasks() => BY_TASK,
            summed => summed.into(),
        },
        task_cpu,
        task_started: offset("start_time")?,
        always: u32::from(config.is_always_on()),
        since_ns: energy_trace_system::clock::now().as_ns(),
        ranges: u32::from(config.ranges),
        user: config.user.unwrap_or_default(),
        task_cred: offset("cred")?,
        cred_euid: if config.user.is_some() { types.offset_of("cred", "euid")? } else { 0 },
        mm_flags: if config.user.is_some() { types.offset_of("mm_struct", "flags")? } else { 0 },
        ..if config.sum_time { clock_settings(&types) } else { Settings::default() }
    };
    Ok((settings, group.unwrap_or_default()))
}

/// Whether this process's namespace has all processes (`PROC_PID_INIT_INO`, include/linux/proc_ns.h, v6.18): in another an iterator shows no more
/// than are there.
fn sees_all_tasks() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xefff_fffc)
}

/// Where the scheduler's clock lies; without `CONFIG_FAIR_GROUP_SCHED` no task knows.
fn clock_settings(types: &KernelTypes) -> Settings {
    let task_queue = types.offset_of("task_struct", "se.cfs_rq");
    let rest = (types.offset_of("cfs_rq", "rq"), types.offset_of("rq", "clock"));
    match (task_queue, rest) {
        (Ok(task_queue), (Ok(queue_cpu), Ok(cpu_clock))) => {
            Settings { task_queue, queue_cpu, cpu_clock, ..Settings::default() }
        }
        _ => Settings::default(),
    }
}

fn group_settings(types: &KernelTypes, group: GroupId) -> Result<GroupSettings, ProbeError> {
    Ok(GroupSettings {
        id: group.number,
        hierarchy: group.hierarchy,
        kernfs_node: types.offset_of("cgroup", "kn")?,
        node_id: types.offset_of("kernfs_node", "id")?,
        parent: types.offset_of("cgroup", "self.parent")?,
        root: types.offset_of("cgroup", "root")?,
        root_hierarchy: types.offset_of("cgroup_root", "hierarchy_id")?,
        task_groups: types.offset_of("task_struct", "cgroups")?,
        default_group: types.offset_of("css_set", "dfl_cgrp")?,
        reserved: 0,
    })
}

/// Whether the kernel has the helpers that give the registers of user mode (Linux 5.11 and 5.15).
fn tells_registers(types: &KernelTypes) -> bool {
    let helpers = ["BPF_FUNC_get_current_task_btf", "BPF_FUNC_task_pt_regs"];
    helpers.iter().all(|helper| types.has_value("bpf_func_id", helper))
}

#[cfg(test)]
mod tests {
    use crate::object::PROBES;
    use object::{Object as _, ObjectSection as _, SectionKind};
    use std::collections::BTreeSet;

    /// A BPF instruction (Documentation/bpf/standardization/instruction-set.rst, v6.18).
    #[derive(Clone, Copy)]
    struct Instruction {
        opcode: u8,
        source: u8,
        offset: i16,
        immediate: i32,
    }

    /// The instructions of all programs and functions; the second halves of wide ones look like none.
    fn instructions() -> Vec<Instruction> {
        let object = object::File::parse(PROBES).unwrap();
        let code = object.sections().filter(|section| section.kind() == SectionKind::Text);
        let decode = |bytes: &[u8]| Instruction {
            opcode: bytes[0],
            source: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        };
        code.flat_map(|section| section.data().unwrap().chunks_exact(8).map(decode).collect::<Vec<_>>())
            .collect()
    }

    /// Of the helpers that are called, the last of Linux 5.10 is number 155; only two are newer, for which there is another
    /// way, and the one that only programs on GPU libraries call, without which everything else runs.
    #[test]
    fn helpers_are_those_of_the_oldest_kernel() {
        let calls = instructions().into_iter().filter(|i| i.opcode == 0x85 && i.source == 0);
        let helpers: BTreeSet<i32> = calls.map(|call| call.immediate).collect();
        assert!(helpers.contains(&130), "bpf_ringbuf_output is called: {helpers:?}");
        let newer: Vec<i32> = helpers.into_iter().filter(|&helper| helper > 155).collect();
        assert_eq!(
            newer,
            [158, 174, 175],
            "bpf_get_current_task_btf, bpf_get_attach_cookie and bpf_task_pt_regs"
        );
    }

    /// No instruction is newer than Linux 5.10: no atomic but a plain addition and an exchange (5.12; which program may have one is a test of
    /// `tests/offline/ebpf/contexts.rs`), none of the fourth version (6.6: sign extension, signed division, byte swaps without a side, long
    /// jumps).
    #[test]
    fn instructions_are_those_of_the_oldest_kernel() {
        const EXCHANGE: i32 = 0xe1;
        let instructions = instructions();
        assert!(instructions.len() > 1000);
        for Instruction { opcode, offset, immediate, .. } in instructions {
            let (class, mode) = (opcode & 7, opcode >> 5);
            let newer = match class {
                1 => mode == 4,
                3 => mode == 6 && ![0, EXCHANGE].contains(&immediate),
                4 | 7 => opcode == 0xd7 || offset != 0,
                6 => opcode == 0x06,
                _ => false,
            };
            assert!(!newer, "opcode {opcode:#x}, offset {offset}, immediate {immediate}");
        }
    }
}
