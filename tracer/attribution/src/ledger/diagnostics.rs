//! What a reader must know about an attribution: findings with their numbers. Leaves out the sentences, which
//! the report makes.

use crate::ledger::result::{CpuBasis, DomainResult, SplitBasis};
use crate::power_model::learn::PowerModel;
use crate::timeline::{GapReason, Lag, Span};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, IdleInUse};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Domain, DomainClass, KernelTier, LaunchStacks, Origin};
use energy_trace_model::units::MicroJoules;

/// Power beside busy CPUs, in parts of what is drawn alone: less is said.
const CLEARLY_LESS: f64 = 0.9;
/// Silence at the ends shorter than this is the ordinary distance between a reading and the recording's end.
const ORDINARY_NS: u64 = 100_000_000;

/// Findings about one domain.
pub(crate) fn of_domain(
    recording: &Recording,
    domain: &Domain,
    result: &DomainResult,
    span: Span,
) -> Vec<Diagnostic> {
    let is_only = !recording.domains.iter().any(|domain| domain.class.adds_up());
    let mut found: Vec<DomainDiagnostic> = missing_readings(result, is_only, span).into_iter().collect();
    let readings = result.metered.timeline.left_out;
    if readings > 0 {
        found.push(DomainDiagnostic::ReadingsLeftOut { readings });
    }
    if !result.metered.timeline.intervals.is_empty() {
        found.extend(of_energy(recording, domain, result));
    }
    found.into_iter().map(|what| Diagnostic::of(&domain.name, what)).collect()
}

/// Findings about a domain of which some energy is known.
fn of_energy(recording: &Recording, domain: &Domain, result: &DomainResult) -> Vec<DomainDiagnostic> {
    let mut found = Vec::new();
    match domain.in_use() {
        Some((by, _)) => {
            let idle = match recording.used(domain) {
                false => IdleInUse::OfOthers,
                true if result.row.idle > MicroJoules::ZERO => IdleInUse::Pauses,
                true => IdleInUse::Unknown,
            };
            found.push(DomainDiagnostic::GpuInUse { by: by.clone(), idle });
        }
        None if domain.idle.is_none() && matches!(domain.origin, Origin::Counter { .. }) => {
            found.push(DomainDiagnostic::NoIdleBaseline);
        }
        None => found.extend(busy_before_start(domain, result)),
    }
    match &result.basis {
        SplitBasis::Launches(split, groups) => {
            found.push(DomainDiagnostic::GpuSplit(*split));
            let groups = groups.iter().cloned();
            found.extend(groups.map(|names| DomainDiagnostic::GpuNotToldApart { names }));
        }
        SplitBasis::Nothing if domain.class == DomainClass::Gpu => {
            found.push(DomainDiagnostic::GpuUnattributed);
        }
        SplitBasis::Nothing => {} // A module's, and the ledger says where it is.
        SplitBasis::CpuTime(basis) => {
            found.extend(unidentified(&basis.power_model));
            found.extend(lack_of_fit(&basis.power_model).filter(|_| basis.weighted));
        }
    }
    found.extend(result.cpu_basis().filter(|basis| basis.weighted).and_then(less_beside_others));
    found.extend(idle_above_counter(result));
    found.extend(result.metered.lag.map(of_lag));
    found
}

/// What was measured before the start was the power of what ran then.
fn busy_before_start(domain: &Domain, result: &DomainResult) -> Option<DomainDiagnostic> {
    let (taken, baseline) = result.metered.busy_before.zip(domain.idle.as_ref())?;
    let percent = baseline.origin.too_busy()?;
    Some(DomainDiagnostic::BusyBeforeStart { percent, measured: baseline.power, taken })
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
fn less_beside_others(basis: &CpuBasis) -> Option<DomainDiagnostic> {
    let beside = basis.power_model.model()?.contended_ratio()?;
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

/// How much time has no reading, and why; `is_only`: nothing but meters of the whole machine is read.
fn missing_readings(result: &DomainResult, is_only: bool, span: Span) -> Option<DomainDiagnostic> {
    let mut by_reason = result.metered.timeline.missing_ns();
    by_reason.retain(|why, ns| *why != GapReason::NoReading || *ns > ORDINARY_NS || *ns == span.ns());
    if by_reason.contains_key(&GapReason::NeverMoved) && is_optional(result.row.class) && !is_only {
        return Some(DomainDiagnostic::NotCounted);
    }
    let missing_ns: u64 = by_reason.values().sum();
    (missing_ns > 0).then_some(DomainDiagnostic::NoReading {
        missing_ns,
        of_ns: span.ns(),
        reasons: by_reason,
    })
}

/// Whether there are machines that show a counter of it and do not count.
const fn is_optional(class: DomainClass) -> bool {
    matches!(class, DomainClass::Dram | DomainClass::Psys | DomainClass::Core)
}

/// A baseline that is above the counter while something runs makes shares negative: said when it is more than
/// 1 % of the whole.
fn idle_above_counter(result: &DomainResult) -> Option<DomainDiagnostic> {
    let negative = -result.negative;
    let (idle, measured) = (result.metered.idle, result.row.measured);
    // A machine at rest draws a little less than it did before, now and then.
    let clearly = measured.max(MicroJoules::ZERO) + MicroJoules::from_uj(measured.as_uj().max(0) / 10);
    let run = (idle > clearly).then_some((idle, measured));
    let large = negative > MicroJoules::ZERO && negative.as_uj() > measured.as_uj().saturating_abs() / 100;
    (large || run.is_some()).then_some(DomainDiagnostic::IdleAboveCounter { negative, run })
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

#[cfg(test)]
mod tests {
    use super::{
        Recording, idle_above_counter, missing_readings, of_domain, of_energy, of_kernels, of_launch_stacks,
        of_recording, unidentified,
    };
    use crate::ledger::result::tests::package;
    use crate::ledger::result::{DomainResult, Metered};
    use crate::power_model::columns::Columns;
    use crate::power_model::learn::PowerModel;
    use crate::timeline::{Gap, GapReason, Span, Timeline};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::DomainId;
    use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
    use energy_trace_model::recording::record::{
        Domain, DomainClass, IdleBaseline, IdleOrigin, KernelTier, LaunchStacks, Origin, Scope,
    };
    use energy_trace_model::units::{MicroJoules, MicroWatts};

    fn span(from_ms: u64, until_ms: u64) -> Span {
        Span::new(KtimeNs::from_ns(from_ms * 1_000_000), KtimeNs::from_ns(until_ms * 1_000_000))
    }

    /// A domain with these gaps and so much energy, of which `negative` went to owners.
    fn result(gaps: &[(GapReason, u64, u64)], measured: i64, negative: i64) -> DomainResult {
        let gap = |&(why, from, until): &(GapReason, u64, u64)| Gap { span: span(from, until), why };
        let timeline = Timeline { gaps: gaps.iter().map(gap).collect(), ..Timeline::default() };
        let mut result = package(Metered { timeline, ..Metered::default() }, 0);
        result.row.measured = MicroJoules::from_uj(measured);
        result.negative = MicroJoules::from_uj(negative);
        result
    }

    /// Milliseconds without a reading, and why, in a run of a second.
    fn missing(gaps: &[(GapReason, u64, u64)]) -> Option<(u64, Vec<GapReason>)> {
        match missing_readings(&result(gaps, 0, 0), false, span(0, 1_000))? {
            DomainDiagnostic::NoReading { missing_ns, of_ns: 1_000_000_000, reasons } => {
                assert_eq!(reasons.values().sum::<u64>(), missing_ns);
                Some((missing_ns / 1_000_000, reasons.into_keys().collect()))
            }
            other => panic!("{other:?}"),
        }
    }

    /// A tenth of a second at the ends is usual, together; all of the run is not, however short. Other gaps
    /// are always said, each reason once.
    #[test]
    fn gaps_that_are_said() {
        use GapReason::{NoReading, Slept, WentBack};
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&[(NoReading, 0, 50), (NoReading, 950, 1_000)]), None);
        let longer = [(NoReading, 0, 50), (NoReading, 949, 1_000)];
        assert_eq!(missing(&longer), Some((101, vec![NoReading])));
        let several = [(NoReading, 0, 50), (WentBack, 100, 110), (Slept, 200, 500), (WentBack, 600, 605)];
        assert_eq!(missing(&several), Some((315, vec![WentBack, Slept])));
        let all = result(&[(NoReading, 0, 60)], 0, 0);
        assert!(missing_readings(&all, false, span(0, 60)).is_some());
        assert!(missing_readings(&all, false, span(0, 61)).is_none());
    }

    /// Negative shares are said when they are more than a hundredth of what was measured.
    #[test]
    fn shares_below_zero() {
        let said = |measured, negative| idle_above_counter(&result(&[], measured, negative));
        assert_eq!([said(1_000, 0), said(1_000, -10), said(0, 0)], [None, None, None]);
        let negative = MicroJoules::from_uj(11);
        assert_eq!(said(1_000, -11), Some(DomainDiagnostic::IdleAboveCounter { negative, run: None }));
        assert!(said(-1_000, -10).is_none() && said(-1_000, -11).is_some());
        // Idle power that comes to more than all is said whatever shares are.
        let mut above = result(&[], 1_000, 0);
        let run = [1_101, 1_000].map(MicroJoules::from_uj);
        above.metered.idle = MicroJoules::from_uj(1_100);
        assert_eq!(idle_above_counter(&above), None);
        above.metered.idle = run[0];
        let wanted =
            DomainDiagnostic::IdleAboveCounter { negative: MicroJoules::ZERO, run: Some(run.into()) };
        assert_eq!(idle_above_counter(&above), Some(wanted));
    }

    /// A counter that never moved is a lie where every machine draws power; of a part that not every machine
    /// counts it is said alone.
    #[test]
    fn counters_that_never_move() {
        let of = |class| {
            let mut result = result(&[(GapReason::NeverMoved, 0, 1_000)], 0, 0);
            result.row.class = class;
            missing_readings(&result, false, span(0, 1_000)).map(|found| found.code())
        };
        let package = [DomainClass::Package, DomainClass::Gpu].map(of);
        assert_eq!(package, [Some("counter-doubted"); 2]);
        let optional = [DomainClass::Dram, DomainClass::Psys, DomainClass::Core].map(of);
        assert_eq!(optional, [Some("not-counted"); 3]);
    }

    /// Readings that were left out are counted, and none are not said; nothing more is said of a domain
    /// without energy.
    #[test]
    fn readings_left_out() {
        let origin = Origin::measured("powercap", String::new(), None);
        let (class, scope) = (DomainClass::Package, Scope::Machine);
        let domain =
            Domain { id: DomainId::new(0), name: "package-0".to_owned(), class, scope, origin, idle: None };
        let said = |left_out| {
            let mut result = result(&[], 0, 0);
            result.metered.timeline.left_out = left_out;
            of_domain(&Recording::default(), &domain, &result, span(0, 1_000))
        };
        assert_eq!(said(0), []);
        let two = DomainDiagnostic::ReadingsLeftOut { readings: 2 };
        assert_eq!(said(2), [Diagnostic::of("package-0", two)]);
    }

    /// That no idle power is known is said of a counter without a baseline; a model has its own.
    #[test]
    fn idle_power_that_nobody_knows() {
        let power = MicroWatts::from_uw(1);
        let counter = Origin::measured("powercap", String::new(), None);
        let said = |origin, idle| {
            let (name, class) = (String::new(), DomainClass::Package);
            let domain = Domain { id: DomainId::new(0), name, class, scope: Scope::Machine, origin, idle };
            of_energy(&Recording::default(), &domain, &result(&[], 0, 0))
        };
        let given = IdleBaseline { power, origin: IdleOrigin::Given };
        assert_eq!(said(counter.clone(), None), [DomainDiagnostic::NoIdleBaseline]);
        assert_eq!(said(counter, Some(given)), []);
        assert_eq!(said(Origin::Model { idle: power, core: power }, None), []);
    }

    /// One column says nothing where call paths share it; one call path alone needs no powers.
    #[test]
    fn paths_that_share_all() {
        let single = |part: Vec<f64>| {
            let mut columns = Columns::of_paths(vec![1], vec![0; part.len()]);
            columns.set_parts(part);
            columns.set_seconds(vec![1.0]);
            unidentified(&PowerModel::Single(columns))
        };
        assert_eq!(single(vec![0.5, 0.5]), Some(DomainDiagnostic::ModelCpuTime { failed: vec![] }));
        assert_eq!(single(vec![1.0, 0.0]), None);
    }

    /// What kernels cost is said of each process that launched any, and what is missing of those that lost
    /// some.
    #[test]
    fn kernels() {
        let whole = KernelTier { launches: 5, whole: true, ..KernelTier::default() };
        let lost = [
            KernelTier { whole: false, ..whole.clone() },
            KernelTier { dropped: 1, ..whole.clone() },
            KernelTier { untimed: 1, ..whole.clone() },
            KernelTier { unplaced: 1, ..whole.clone() },
        ];
        let none = KernelTier { launches: 0, ..lost[0].clone() };
        assert_eq!(of_kernels(&[none, whole.clone()]), [Diagnostic::KernelCost(whole)]);
        for tier in lost {
            let both = [Diagnostic::KernelCost(tier.clone()), Diagnostic::KernelsMissing(tier.clone())];
            assert_eq!(of_kernels(&[tier]), both);
        }
    }

    /// Stacks of launches that are another launch's or none, slices that overlap, and time of CPUs without a
    /// socket are said if there are any.
    #[test]
    fn of_the_whole_recording() {
        let stacks = |own, thinned, none| LaunchStacks { own, thinned, none };
        assert_eq!(of_launch_stacks(stacks(9, 0, 0)), None);
        for some in [stacks(9, 1, 0), stacks(9, 0, 2)] {
            assert_eq!(of_launch_stacks(some), Some(Diagnostic::LaunchStacksThinned(some)));
        }
        let (overlapping, without) =
            (Diagnostic::OverlappingSlices { times: 1 }, Diagnostic::CpuWithoutSocket { cpu_ns: 2 });
        assert_eq!(of_recording(0, 0), []);
        assert_eq!(of_recording(1, 0), std::slice::from_ref(&overlapping));
        assert_eq!(of_recording(1, 2), [overlapping, without]);
    }
}
