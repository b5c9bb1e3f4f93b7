//! Energy by domain and process, from what each owner of CPU time has.
//!
//! Leaves out threads and stacks (`ledger::rows`).

use crate::ledger::result::{DomainResult, SplitBasis};
use crate::time::owners::{Owner, OwnerTime};
use crate::uncertainty::propagation::OwnerCertainty;
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
    let process_of = |owner: &OwnerTime| match owner.owner {
        Owner::Target(thread, _) => {
            Some(threads.get(thread.get() as usize).map_or(NONE, |thread| thread.process))
        }
        _ => None,
    };
    let processes: Vec<Option<ProcessKey>> = owners.iter().map(process_of).collect();
    let mut of_process: BTreeMap<ProcessKey, MicroJoules> = BTreeMap::new();
    for (process, &energy) in processes.iter().zip(&result.of_owner) {
        if let Some(process) = process
            && energy != MicroJoules::ZERO
        {
            *of_process.entry(*process).or_default() += energy;
        }
    }
    let covered = result.metered.timeline.intervals.iter().map(|interval| interval.span.ns());
    DomainByProcess {
        row: result.row.clone(),
        of_process,
        covered_ns: covered.fold(0, u64::saturating_add),
        missing_ns: result.metered.timeline.missing_ns(),
        by_power: is_by_power(result, &processes),
    }
}

/// Whether powers, or energies of launches, were learned that divide the energy among processes.
fn is_by_power(result: &DomainResult, processes: &[Option<ProcessKey>]) -> bool {
    match &result.basis {
        SplitBasis::CpuTime(basis) => basis.weighted,
        SplitBasis::Launches(split, _) => {
            split.learned.is_some() && !share_a_sum(&result.certainty, &result.of_owner, processes)
        }
        SplitBasis::Nothing => false,
    }
}

/// Whether kernels that cannot be told apart are those of several processes.
fn share_a_sum(
    certainty: &OwnerCertainty,
    of_owner: &[MicroJoules],
    processes: &[Option<ProcessKey>],
) -> bool {
    let mut of_group: BTreeMap<usize, ProcessKey> = BTreeMap::new();
    let mut owners = processes.iter().zip(of_owner).zip(&certainty.column);
    owners.any(|((process, &energy), &column)| {
        let group = certainty.columns.get(column).and_then(|column| column.group);
        let (Some(process), Some(group)) = (*process, group) else { return false };
        energy != MicroJoules::ZERO && *of_group.entry(group.number).or_insert(process) != process
    })
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, OwnerCertainty, ProcessKey, share_a_sum};
    use energy_trace_model::profile::certainty::{Column, ColumnGroup};

    /// Two kernels of a group: of one process they are its own affair, of two nobody knows who has what of their sum.
    #[test]
    fn kernels_that_cannot_be_told_apart() {
        let group = ColumnGroup { number: 3, identified: true, reach: 0.1 };
        let column = |group| Column { identified: false, bounds: (0.0, 2.0), group };
        let certainty = OwnerCertainty {
            column: vec![0, 1, 2, 1],
            columns: vec![column(Some(group)), column(Some(group)), column(None)],
            ..OwnerCertainty::default()
        };
        let process = |key| Some(ProcessKey::new(key));
        let share = |uj: [i64; 4], processes: [Option<ProcessKey>; 4]| {
            share_a_sum(&certainty, &uj.map(MicroJoules::from_uj), &processes)
        };
        assert!(!share([5, 5, 5, 0], [process(0), process(0), process(1), process(1)]));
        assert!(share([5, 5, 5, 0], [process(0), process(1), process(1), None]));
        assert!(!share([5, 0, 5, 5], [process(0), process(1), process(1), None]), "has nothing of it");
    }
}
