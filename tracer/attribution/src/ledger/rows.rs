//! From owners to rows: what each thread and stack got, and how sure that is.
//!
//! Leaves out which owners make one row (`delegation`), and where the doubts come from (`propagation`).

use crate::ledger::result::{CpuBasis, DomainResult};
use crate::time::cpu_time::CpuTime;
use crate::time::owners::{Owner, OwnerId, OwnerTime};
use energy_trace_model::profile::certainty::{Certainty, DomainCertainty, InColumn, Part, Weights};
use energy_trace_model::profile::{EnergyByClass, ProfileRow};
use energy_trace_model::units::MicroJoules;

/// A row for each owner in the target, with its number.
pub(crate) fn by_owner(time: &CpuTime, results: &[DomainResult]) -> Vec<(OwnerId, ProfileRow)> {
    let mut rows = Vec::with_capacity(time.owners.len());
    for (number, owner) in (0..).zip(&time.owners) {
        let Owner::Target(thread, stack) = owner.owner else { continue };
        let (mut energy, mut by_time) = (EnergyByClass::default(), EnergyByClass::default());
        for result in results {
            let at = |list: &[MicroJoules]| list.get(number as usize).copied().unwrap_or_default();
            energy[result.row.class] += at(&result.of_owner);
            by_time[result.row.class] += at(&result.by_time);
        }
        let OwnerTime { time_ns, samples, .. } = *owner;
        rows.push((
            number,
            ProfileRow { thread, stack, energy, by_time, time_ns, samples, on_behalf_of: None },
        ));
    }
    rows
}

/// How sure rows are that are made of these owners, each with its part.
pub(crate) fn certainty(results: &[DomainResult], rows: &[Vec<(OwnerId, f64)>]) -> Certainty {
    Certainty { domains: results.iter().map(|result| of_domain(result, rows)).collect() }
}

fn of_domain(result: &DomainResult, rows: &[Vec<(OwnerId, f64)>]) -> DomainCertainty {
    let of = &result.certainty;
    let at = |list: &[f64], owner: OwnerId| list.get(owner as usize).copied().unwrap_or(0.0);
    let joules =
        |owner: OwnerId| result.of_owner.get(owner as usize).map_or(0.0, |energy| energy.as_joules());
    let sum = |value: &dyn Fn(OwnerId, f64) -> f64| -> Vec<f64> {
        rows.iter().map(|owners| owners.iter().map(|&(owner, part)| value(owner, part)).sum()).collect()
    };
    let parts = |owners: &Vec<(OwnerId, f64)>| {
        let parts = owners.iter().filter(|(_, part)| *part < 1.0);
        let part = |&(owner, part): &(OwnerId, f64)| Part {
            of: owner,
            joules: part * joules(owner),
            whole: joules(owner),
            variance: at(&of.variance, owner),
        };
        parts.map(part).collect()
    };
    let energy = |owners: &Vec<(OwnerId, f64)>| {
        let of_owner = |&(owner, part): &(OwnerId, f64)| InColumn {
            column: of.column.get(owner as usize).copied().unwrap_or(0),
            joules: part * joules(owner),
            square: part * at(&of.square, owner),
            function: of.function.get(owner as usize).copied().unwrap_or(0),
        };
        in_columns(owners.iter().map(of_owner))
    };
    DomainCertainty {
        class: Some(result.row.class),
        first_row: 0,
        energy: rows.iter().map(energy).collect(),
        seconds: sum(&|owner, part| part * at(&of.seconds, owner)),
        variance: sum(&|owner, part| part * at(&of.variance, owner)),
        parts: rows.iter().map(parts).collect(),
        all_variance: of.variance.iter().sum(),
        columns: of.columns.clone(),
        pools: of.pools.clone(),
        functions: of.functions.clone(),
        path_variance: of.path_variance,
        relative: of.relative.clone(),
        idle_joules: result.metered.idle_joules,
        measured_joules: Some(result.row.measured.as_joules()),
        all_seconds: of.seconds.iter().sum(),
        weights: result.cpu_basis().and_then(weights),
    }
}

/// One entry a column and innermost function.
fn in_columns(parts: impl Iterator<Item = InColumn>) -> Vec<InColumn> {
    let mut found: Vec<InColumn> = Vec::with_capacity(1);
    for part in parts {
        match found.iter_mut().find(|found| (found.column, found.function) == (part.column, part.function)) {
            Some(found) => {
                found.joules += part.joules;
                found.square += part.square;
            }
            None => found.push(part),
        }
    }
    found
}

/// What became of the learned powers, where there are any.
fn weights(basis: &CpuBasis) -> Option<Weights> {
    let CpuBasis { power_model, weighted, settings } = basis;
    let validity = power_model.model()?.validity;
    Some(Weights { validity, used: *weighted, siblings: settings.eta, frequency: settings.exponent })
}

#[cfg(test)]
mod tests {
    use super::{InColumn, in_columns};

    /// What is in one column and of one innermost function is summed, in the order in which it comes; all
    /// else stands for itself.
    #[test]
    fn entries_are_summed() {
        let entry = |column, function, joules| InColumn { column, joules, square: joules / 2.0, function };
        let all = [entry(1, 5, 4.0), entry(0, 5, 1.0), entry(1, 6, 2.0), entry(1, 5, 0.5)];
        assert_eq!(in_columns(all.into_iter()), [entry(1, 5, 4.5), entry(0, 5, 1.0), entry(1, 6, 2.0)]);
        assert_eq!(in_columns([].into_iter()), []);
    }
}
