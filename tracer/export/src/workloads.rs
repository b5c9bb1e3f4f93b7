//! Whose work each process of a profile does: its control group's, and its rank.
//!
//! Leaves out what a path means (`names::workload`).

use energy_trace_model::profile::Profile;
use energy_trace_names::shown::shown;
use energy_trace_names::workload::Workload;

/// By the numbers of processes.
pub(crate) fn workloads_of(profile: &Profile) -> Vec<Workload> {
    let groups = profile.groups_of_processes();
    let of = |(process, group): (_, &Option<&str>)| {
        let mut workload = group.map_or_else(Workload::default, |group| Workload::of(&shown(group)));
        workload.rank = workload.rank.or_else(|| profile.rank_of(process));
        workload
    };
    profile.processes.iter().map(|process| process.key).zip(&groups).map(of).collect()
}
