//! What is known when a recording starts: the machine, the clocks, the plan.

use crate::plan::RecordPlan;
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::recording::record::{Header, Source};
use energy_trace_probe::Tracer;
use energy_trace_system::host::cpu_model::read_cpu_model_at;
use energy_trace_system::host::kernel::read_kernel_at;
use energy_trace_system::host::topology::{read_cores_at, read_place_at, read_sockets_at, tree_of_cpus};
use std::collections::BTreeMap;
use std::path::Path;

/// The recording's first record.
pub(super) fn header(plan: &RecordPlan, sources: Vec<Source>, tracer: &Tracer) -> Header {
    Header {
        version: env!("CARGO_PKG_VERSION").into(),
        command: plan.target.command().iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        anchor: energy_trace_system::clock::anchor(),
        kernel: read_kernel_at(Path::new("/")),
        cpu_model: read_cpu_model_at(Path::new("/")),
        sockets: sockets(plan, &tracer.cpus()),
        sample_hz: tracer.sample_hz(),
        jitter: tracer.jitter(),
        sample_event: tracer.sample_event(),
        system_wide: plan.system_wide,
        sources,
    }
}

/// The socket of each CPU. Of this machine's, those too that a container's `/sys` does not list.
fn sockets(plan: &RecordPlan, cpus: &[CpuId]) -> BTreeMap<CpuId, SocketId> {
    let tree = tree_of_cpus(&plan.power.sysfs);
    let mut sockets = read_sockets_at(tree);
    for &cpu in cpus.iter().filter(|_| tree == Path::new("/sys")) {
        sockets.entry(cpu).or_insert_with(|| SocketId::new(read_place_at(tree, cpu.get()).socket));
    }
    sockets
}

/// The CPUs that share a core, by the same sysfs as the sockets.
pub(super) fn cores(plan: &RecordPlan) -> Vec<Vec<CpuId>> {
    read_cores_at(tree_of_cpus(&plan.power.sysfs))
}
