//! What is known when a recording starts: the machine, the clocks, the plan.

use crate::plan::RecordPlan;
use crate::power::topology::{read_cores_at, read_sockets_at, tree_of_cpus};
use crate::probe::Tracer;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::record::{Header, Source};
use std::path::Path;

/// The recording's first record.
pub(super) fn header(plan: &RecordPlan, sources: Vec<Source>, tracer: &Tracer) -> Header {
    Header {
        version: env!("CARGO_PKG_VERSION").into(),
        command: plan.target.command().iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        anchor: crate::clock::anchor(),
        kernel: read_kernel_at(Path::new("/")),
        cpu_model: read_cpu_model_at(Path::new("/")),
        sockets: read_sockets_at(tree_of_cpus(&plan.power.sysfs)),
        sample_hz: tracer.sample_hz(),
        sample_event: tracer.sample_event().into(),
        system_wide: plan.system_wide,
        sources,
    }
}

/// The kernel's release, as `uname -r` says it; empty when it does not say.
pub fn read_kernel_at(root: &Path) -> String {
    std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default().trim().to_owned()
}

/// The CPU's model; empty where `/proc/cpuinfo` has none (some ARM machines).
pub fn read_cpu_model_at(root: &Path) -> String {
    parse_cpu_model(&std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
}

fn parse_cpu_model(cpuinfo: &str) -> String {
    let of_key = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    };
    cpuinfo.lines().find_map(of_key).unwrap_or_default()
}

/// The CPUs that share a core, by the same sysfs as the sockets.
pub(super) fn cores(plan: &RecordPlan) -> Vec<Vec<CpuId>> {
    read_cores_at(tree_of_cpus(&plan.power.sysfs))
}

#[cfg(test)]
mod tests {
    use super::parse_cpu_model;

    /// The first CPU's model counts; a machine that names none gives an empty name, not a wrong one.
    #[test]
    fn cpu_models() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n\nmodel name\t: other\n";
        assert_eq!(parse_cpu_model(x86), "Intel(R) Xeon(R)");
        assert_eq!(parse_cpu_model("processor : 0\nBogoMIPS : 50\n"), "");
    }
}
