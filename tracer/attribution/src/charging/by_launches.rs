//! Charges a GPU's energy to those who launched work on it.
//!
//! CPU time says nothing about a GPU. Leaves out what launches cost (`gpu`).

use super::basis::Basis;
use crate::gpu::Gpu;
use crate::ledger::result::DomainResult;
use energy_trace_model::profile::UnattributedReason;

/// Charges a GPU's energy above idle; it is nobody's where no launches were recorded.
pub(super) fn charge_by_launches(result: &mut DomainResult, device: u32, basis: &Basis<'_>) {
    let metered = &result.metered;
    let gpu = Gpu {
        recording: basis.recording,
        device,
        launchers: basis.launchers,
        start: basis.span.start,
        intervals: &metered.timeline.intervals,
        after: &metered.after,
        in_windows: basis.carried.is_some(),
    };
    match gpu.estimate(&metered.dynamic) {
        Some(estimate) => estimate.charge(result),
        None => result.leave(UnattributedReason::NoLaunchData),
    }
}
