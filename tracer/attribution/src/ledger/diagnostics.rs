//! What a reader must know about an attribution: findings with their numbers. Leaves out the sentences, which the report makes.

use crate::gpu::{Known, Learned};
use crate::ledger::account::Account;
use crate::ledger::charges::{CpuGrounds, Grounds};
use crate::power_model::learn::PowerModel;
use crate::timeline::{GapReason, Lag, Span};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, GpuSplit, MeterFit, SplitBy};
use energy_trace_model::recording::record::{Domain, KernelTier, LaunchStacks, Origin};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Power beside busy CPUs, in parts of what is drawn alone: less is said.
const CLEARLY_LESS: f64 = 0.9;
/// Silence at the ends shorter than this is the ordinary distance between a reading and the recording's end.
const ORDINARY_NS: u64 = 100_000_000;

/// Findings about one domain.
pub(crate) fn of_domain(domain: &Domain, account: &Account, span: Span) -> Vec<Diagnostic> {
    let mut found: Vec<DomainDiagnostic> = missing_readings(account, span).into_iter().collect();
    let intervals = account.timeline.implausible;
    if intervals > 0 {
        found.push(DomainDiagnostic::ImplausiblePower { intervals });
    }
    if !account.timeline.intervals.is_empty() {
        found.extend(of_energy(domain, account));
    }
    found.into_iter().map(|what| Diagnostic::of(&domain.name, what)).collect()
}

/// Findings about a domain of which some energy is known.
fn of_energy(domain: &Domain, account: &Account) -> Vec<DomainDiagnostic> {
    let mut found = Vec::new();
    if domain.idle.is_none() && matches!(domain.origin, Origin::Counter { .. }) {
        found.push(DomainDiagnostic::NoIdleBaseline);
    }
    match &account.grounds {
        Grounds::Launches(learned) => found.extend(of_launches(learned)),
        Grounds::Nothing => found.push(DomainDiagnostic::GpuUnattributed),
        Grounds::CpuTime(grounds) => {
            found.extend(unidentified(&grounds.power_model));
            found.extend(lack_of_fit(&grounds.power_model).filter(|_| grounds.weighted));
        }
    }
    if account.certainty.aliased {
        found.push(DomainDiagnostic::SamplesInStep);
    }
    found.extend(account.cpu_grounds().filter(|grounds| grounds.weighted).and_then(less_beside_others));
    found.extend(idle_above_counter(account));
    found.extend(account.lag.map(of_lag));
    found
}

/// How a GPU's energy was split, and what could not be told apart.
fn of_launches(learned: &Learned) -> Vec<DomainDiagnostic> {
    let Learned { kinds, windows: steps, late, duty, mean, condition, alone, misfit, .. } = *learned;
    let by = match learned.known {
        Known::Launches => SplitBy::Launches,
        Known::Waits => SplitBy::Waits,
        Known::Records { crowded, whole } => SplitBy::Kernels { crowded, whole },
    };
    let fit = MeterFit { late_s: late, duty, mean_s: mean, condition };
    let learned_fit = learned.believed.then_some(fit);
    let split = GpuSplit {
        by,
        kinds,
        steps,
        learned: learned_fit,
        alone,
        misfit: misfit.filter(|_| learned.believed),
    };
    let groups = learned.groups.iter().cloned();
    std::iter::once(DomainDiagnostic::GpuSplit(split))
        .chain(groups.map(|names| DomainDiagnostic::GpuNotToldApart { names }))
        .collect()
}

/// The windows contradict the powers, or one column has all the time though there is more than one call path.
fn unidentified(power_model: &PowerModel) -> Option<DomainDiagnostic> {
    match power_model {
        PowerModel::Known(_) => None,
        PowerModel::Refused(model) => {
            let failed = model.validity.each().into_iter().filter(|check| !check.passed);
            Some(DomainDiagnostic::ModelCpuTime { failed: failed.map(|check| check.check).collect() })
        }
        PowerModel::Single(columns) => {
            columns.is_shared().then(|| DomainDiagnostic::ModelCpuTime { failed: vec![] })
        }
    }
}

/// CPUs drew clearly less while others were busy.
fn less_beside_others(grounds: &CpuGrounds) -> Option<DomainDiagnostic> {
    let beside = grounds.power_model.model()?.beside_others()?;
    (beside < CLEARLY_LESS).then_some(DomainDiagnostic::LessBesideOthers { part: beside })
}

/// The windows hold more or less than powers, times and the counter explain.
fn lack_of_fit(power_model: &PowerModel) -> Option<DomainDiagnostic> {
    let PowerModel::Known(model) = power_model else { return None };
    let [misfit, _] = model.validity.each();
    (!misfit.passed).then_some(DomainDiagnostic::LackOfFit { times: misfit.value })
}

/// The log of a meter was moved in time.
const fn of_lag(lag: Lag) -> DomainDiagnostic {
    DomainDiagnostic::MeterLag { late_ns: lag.late_ns, fit: lag.fit, unshifted: lag.unshifted }
}

/// How much time has no reading, and why.
fn missing_readings(account: &Account, span: Span) -> Option<DomainDiagnostic> {
    let mut by_reason: BTreeMap<GapReason, u64> = BTreeMap::new();
    for gap in &account.timeline.gaps {
        *by_reason.entry(gap.why).or_default() += gap.span.ns();
    }
    by_reason.retain(|why, ns| *why != GapReason::NoReading || *ns > ORDINARY_NS || *ns == span.ns());
    let missing_ns: u64 = by_reason.values().sum();
    let reasons = by_reason.into_keys().collect();
    (missing_ns > 0).then_some(DomainDiagnostic::NoReading { missing_ns, of_ns: span.ns(), reasons })
}

/// A baseline that is above the counter while something runs makes shares negative: said when it is more than 1 % of the whole.
fn idle_above_counter(account: &Account) -> Option<DomainDiagnostic> {
    let negative = -account.negative;
    let whole = account.row.measured.as_uj().saturating_abs();
    let large = negative > MicroJoules::ZERO && negative.as_uj() > whole / 100;
    large.then_some(DomainDiagnostic::IdleAboveCounter { negative })
}

/// What the kernel tier told of each process, what it cost, and what is missing.
pub(crate) fn of_kernels(tiers: &[KernelTier]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for tier in tiers.iter().filter(|tier| tier.launches > 0) {
        found.push(Diagnostic::KernelCost(tier.clone()));
        if !tier.whole || [tier.dropped, tier.untimed, tier.unplaced].iter().any(|&count| count > 0) {
            found.push(Diagnostic::KernelsMissing(tier.clone()));
        }
    }
    found
}

/// Launches that stand in another launch's stack, or in none.
pub(crate) fn of_launch_stacks(stacks: LaunchStacks) -> Option<Diagnostic> {
    (stacks.thinned > 0 || stacks.none > 0).then_some(Diagnostic::LaunchStacksThinned(stacks))
}

/// Findings about the whole recording.
pub(crate) fn of_recording(overlaps: u64, without_socket_ns: u64) -> Vec<Diagnostic> {
    let overlapping = (overlaps > 0).then_some(Diagnostic::OverlappingSlices { times: overlaps });
    let without_socket =
        (without_socket_ns > 0).then_some(Diagnostic::CpuWithoutSocket { cpu_ns: without_socket_ns });
    overlapping.into_iter().chain(without_socket).collect()
}
