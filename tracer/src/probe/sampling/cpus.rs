//! The CPUs: which there are, and a visit to each that ends its open slice.

use crate::probe::bpf::error::ProbeError;
use energy_trace_model::ids::CpuId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid as Thread;

/// CPUs that are online.
///
/// # Errors
/// When `/sys/devices/system/cpu/online` cannot be read.
pub fn read_online_cpus() -> Result<Vec<CpuId>, ProbeError> {
    let cpus = aya::util::online_cpus().map_err(|(_, error)| ProbeError::Reader(error))?;
    Ok(cpus.into_iter().map(CpuId::new).collect())
}

/// One more than the highest number that a CPU may ever have, whether it is there or not: maps that CPUs index are made before.
///
/// # Errors
/// When `/sys/devices/system/cpu/possible` cannot be read.
pub(crate) fn read_cpu_bound() -> Result<u32, ProbeError> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").map_err(ProbeError::Reader)?;
    Ok(bound_of(&text))
}

/// Of a list such as `0-3,8-11`.
fn bound_of(list: &str) -> u32 {
    let ends = list.trim().split([',', '-']).filter_map(|number| number.parse::<u32>().ok());
    ends.max().map_or(1, |highest| highest.saturating_add(1))
}

/// Runs on each CPU for a moment: what ran there is switched out, and its slice ends. CPUs that this process may not use keep theirs
/// open; the visits are made by a thread of its own, so that nobody's affinity changes, or by this one where there is no other to be had.
pub(crate) fn visit(cpus: &[CpuId]) {
    std::thread::scope(|scope| {
        let visitor = std::thread::Builder::new().spawn_scoped(scope, || visit_from_here(cpus));
        if visitor.is_err() {
            let before = sched_getaffinity(Thread::from_raw(0));
            visit_from_here(cpus);
            // What it was before is allowed.
            let _ = before.and_then(|before| sched_setaffinity(Thread::from_raw(0), &before));
        }
    });
}

fn visit_from_here(cpus: &[CpuId]) {
    for cpu in cpus {
        let mut set = CpuSet::new();
        if set.set(cpu.index()).is_ok() && sched_setaffinity(Thread::from_raw(0), &set).is_ok() {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bound_of;

    /// The highest number counts, wherever it stands; a list that says nothing leaves room for the first CPU.
    #[test]
    fn bounds_of_lists() {
        assert_eq!(bound_of("0-1\n"), 2);
        assert_eq!(bound_of("0-3,8-11\n"), 12);
        assert_eq!((bound_of("0\n"), bound_of("")), (1, 1));
    }
}
