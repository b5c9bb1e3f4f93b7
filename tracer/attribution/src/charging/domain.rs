//! One domain, from its readings to what became of its energy.
//!
//! Leaves out each of the steps.

use super::basis::Basis;
use super::by_cpu_time::charge_by_cpu_time;
use super::by_launches::charge_by_launches;
use super::metering::meter;
use crate::ledger::result::DomainResult;
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::recording::record::{Domain, Quality, Reading, Scope};

/// Charges the energy of a domain.
pub(crate) fn charge(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> DomainResult {
    let metered = meter(domain, readings, basis);
    let mut result = DomainResult::uncharged(domain, metered, basis.time.owners.len());
    match domain.scope {
        Scope::Gpu(device) => {
            charge_by_launches(&mut result, device, basis);
            result.lift_above_zero();
        }
        // The energy of two meters of the same parts would be twice a function's.
        _ if domain.is_module() && basis.recording.domains.iter().any(Domain::is_machine) => {
            result.leave(UnattributedReason::HeldByMachine);
        }
        Scope::Socket(_) | Scope::Machine | Scope::Core(..) => {
            charge_by_cpu_time(&mut result, domain, basis);
            result.lift_if_far_below_zero();
        }
    }
    if matches!(domain.scope, Scope::Gpu(_)) {
        let held = basis.recording.held_by(domain).into_iter().map(Domain::quality);
        result.row.quality = held.fold(result.row.quality, Quality::max);
    }
    result.row.target = result.of_owner.iter().copied().sum();
    result
}
