//! Energy by domain and process, from what each owner of CPU time has.
//!
//! Leaves out threads and stacks (`ledger::rows`).

use crate::ledger::result::{DomainResult, SplitBasis};
use crate::time::owners::{Owner, OwnerTime};
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::DomainByProcess;
use energy_trace_model::recording::record::Thread;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// A thread that no table has is of a process that there is not.
const NONE: ProcessKey = ProcessKey::new(u32::MAX);

pub(super) fn of(results: &[DomainResult], owners: &[OwnerTime], threads: &[Thread]) -> Vec<DomainByProcess> {
    results.iter().map(|result| of_domain(result, owners, threads)).collect()
}

fn of_domain(result: &DomainResult, owners: &[OwnerTime], threads: &[Thread]) -> DomainByProcess {
    let mut of_process: BTreeMap<ProcessKey, MicroJoules> = BTreeMap::new();
    for (owner, &energy) in owners.iter().zip(&result.of_owner) {
        if let Owner::Target(thread, _) = owner.owner
            && energy != MicroJoules::ZERO
        {
            let process = threads.get(thread.get() as usize).map_or(NONE, |thread| thread.process);
            *of_process.entry(process).or_default() += energy;
        }
    }
    let covered = result.metered.timeline.intervals.iter().map(|interval| interval.span.ns());
    DomainByProcess {
        row: result.row.clone(),
        of_process,
        covered_ns: covered.fold(0, u64::saturating_add),
        missing_ns: result.metered.timeline.missing_ns(),
        by_power: is_by_power(&result.basis),
    }
}

/// Whether powers, or energies of launches, were learned that divide the energy.
fn is_by_power(basis: &SplitBasis) -> bool {
    match basis {
        SplitBasis::CpuTime(basis) => basis.weighted,
        SplitBasis::Launches(split, _) => split.learned.is_some(),
        SplitBasis::Nothing => false,
    }
}
