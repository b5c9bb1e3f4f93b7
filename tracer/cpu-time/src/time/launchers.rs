//! Who owns what was launched on a GPU: its launchers own no time by that, but energy.
//!
//! Leaves out for whom a launcher works (`delegation`).

use super::owners::{Owner, OwnerId, OwnerTime};
use super::slices::SampledTime;
use energy_trace_model::recording::Recording;
use std::collections::BTreeSet;

/// The owner of every launch.
#[derive(Debug, Default)]
pub struct Launchers {
    /// In the order of `GpuWork::launches`.
    pub of_batches: Vec<Vec<OwnerId>>,
    /// In the order of `GpuWork::busy`.
    pub of_busy: Vec<OwnerId>,
}

/// Makes an owner of everybody who launched something.
pub fn register_launch_owners(recording: &Recording, time: &mut SampledTime) {
    let launched = recording.gpu.launches.iter().flat_map(|batch| &batch.work);
    let busy = recording.gpu.busy.iter().map(|busy| (busy.thread, busy.stack));
    let whose: BTreeSet<_> = launched.map(|launched| (launched.thread, launched.stack)).chain(busy).collect();
    let known: BTreeSet<_> = time
        .owners
        .iter()
        .filter_map(|owner| match owner.owner {
            Owner::Target(thread, Some(stack)) => Some((thread, stack)),
            _ => None,
        })
        .collect();
    let new = whose.difference(&known).map(|&(thread, stack)| Owner::Target(thread, Some(stack)));
    time.owners.extend(new.map(|owner| OwnerTime { owner, time_ns: 0, samples: 0 }));
}
