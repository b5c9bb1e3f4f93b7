//! Charges a domain's energy by CPU time and learned powers.
//!
//! Leaves out the powers (`power_model`) and the splits (`split`).

use super::basis::Basis;
use crate::ledger::result::{CpuBasis, DomainResult, Metered, SplitBasis};
use crate::numerics::parallel::both;
use crate::power_model::learn::PowerModel;
use crate::power_model::powers::{Powers, Subject};
use crate::power_model::training_subset::TrainingSubset;
use crate::split::by_power::{PowerSplit, Splitter};
use crate::split::by_time::{ByTime, Shares, present_in};
use crate::split::idle::distribute_idle;
use crate::time::owners::{Owner, OwnerTime};
use crate::timeline::EnergyInterval;
use crate::uncertainty::propagation;
use energy_trace_model::profile::options::Method;
use energy_trace_model::recording::record::{Domain, Origin};
use energy_trace_model::units::MicroJoules;

/// Charges by CPU time, and by powers where the run shows them and the reader did not choose otherwise.
pub(super) fn charge_by_cpu_time(result: &mut DomainResult, domain: &Domain, basis: &Basis<'_>) {
    let metered = &result.metered;
    let owners = basis.time.owners.len();
    let subject = basis.subject(domain, &metered.timeline.intervals);
    let by_time = |dynamic: &[MicroJoules]| ByTime::of(dynamic, subject.intervals, &subject.segments, owners);
    let (plain, powers) = both(|| by_time(&metered.dynamic), || learn(domain, &subject, metered));
    let plain = if powers.dynamic == metered.dynamic { plain } else { by_time(&powers.dynamic) };
    let split = split_by_powers(&powers, &basis.time.owners);
    let weighted =
        matches!(powers.model, PowerModel::Known(_)) && basis.accounting.method == Method::Weighted;
    let by_power = split.as_ref().filter(|_| weighted);
    let charged = &by_power.map_or(&plain.shares, |split| &split.whole.shares).of_owner;
    let certain = propagation::Basis {
        power_model: &powers.model,
        split: split.as_ref().map(|split| &split.whole),
        learned_from: by_power.and_then(|split| split.of_subset.as_ref()).unwrap_or(charged),
        part: powers.subset.part(),
        weighted,
        time: basis.time,
        tree: basis.tree,
        left_out: basis.left_out,
    };
    result.certainty = propagation::certainty(&certain, charged, seconds(&plain.ns));
    let shares = match split {
        Some(split) if weighted => split.whole.shares,
        _ => plain.shares.clone(),
    };
    result.row.uncore = powers.shared_energy;
    result.basis = SplitBasis::CpuTime(Box::new(CpuBasis {
        weighted,
        settings: powers.adjusted.settings,
        power_model: powers.model,
    }));
    enter(shares, plain, result, basis);
}

/// Hands out the idle baseline as was chosen, and enters what owners and all others have.
fn enter(shares: Shares, plain: ByTime, result: &mut DomainResult, basis: &Basis<'_>) {
    let (owners, policy, idle) = (&basis.time.owners, basis.accounting.idle, result.metered.idle);
    let (mut of_owner, mut by_time) = (shares.of_owner, plain.shares.of_owner);
    result.row.idle = distribute_idle(policy, idle, &mut of_owner, &plain.ns, owners);
    distribute_idle(policy, idle, &mut by_time, &plain.ns, owners);
    for (number, owner) in owners.iter().enumerate() {
        if !matches!(owner.owner, Owner::Target(..)) {
            result.row.other += std::mem::take(&mut of_owner[number]);
            by_time[number] = MicroJoules::ZERO;
        }
    }
    (result.of_owner, result.by_time) = (of_owner, by_time);
    (result.row.residual, result.negative) = (shares.residual, shares.negative);
}

/// A split by expected times and powers.
struct Split {
    whole: PowerSplit,
    /// What owners have of the intervals that powers were learned from; `None` where these are all, or where
    /// it makes no difference.
    of_subset: Option<Vec<MicroJoules>>,
}

/// The powers of a domain. A model gives every CPU the same power: there is nothing to learn from it.
fn learn<'a>(domain: &Domain, subject: &'a Subject<'a>, metered: &Metered) -> Powers<'a> {
    match domain.origin {
        Origin::Counter { .. } => Powers::learn(subject, metered.dynamic.clone()),
        Origin::Model { .. } => Powers::nothing(subject, metered.dynamic.clone()),
    }
}

/// The split by expected times and powers, where there are powers.
fn split_by_powers(powers: &Powers<'_>, owners: &[OwnerTime]) -> Option<Split> {
    let model = powers.model.model()?;
    let Subject { intervals, segments, tree, points, .. } = powers.subject;
    let subset = &powers.subset;
    let splitter = Splitter { model, tree, owners, points, subset };
    let present = |intervals: &[EnergyInterval], at: usize| {
        intervals.get(at).map_or_else(Default::default, |interval| present_in(interval.span, segments))
    };
    let whole = splitter.split(&powers.dynamic, powers.slices_in(intervals), |at| present(intervals, at));
    let of_subset = || {
        let (all, there) = (&TrainingSubset::default(), subset.take(intervals));
        let splitter = Splitter { subset: all, ..splitter };
        let slices = powers.slices_in(&there);
        splitter.split(&powers.learned_from, slices, |at| present(&there, at)).shares.of_owner
    };
    let of_subset = (model.settings.lag_ns > 0 && !subset.is_all()).then(of_subset);
    Some(Split { whole, of_subset })
}

/// CPU seconds of each owner.
fn seconds(ns: &[u64]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    ns.iter().map(|&ns| ns as f64 / 1e9).collect()
}
