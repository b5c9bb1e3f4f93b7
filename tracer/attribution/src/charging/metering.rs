//! Meters a domain: what its counter or model says: intervals of energy, and how much of each is the idle
//! baseline's.
//!
//! Leaves out who used the rest.

use super::basis::Basis;
use super::busy_baseline::{Before, Idle, estimate};
use crate::gpu::{power_without_work, regular};
use crate::ledger::result::Metered;
use crate::split::by_time::idle_of;
use crate::time::busy_cpus::activity;
use crate::timeline::{
    EnergyInterval, Lag, LoadCurve, Physics, Span, Timeline, fit_lag, intervals_of_model,
    intervals_of_readings, shift,
};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    Domain, DomainClass, GpuMeterKind, IdleOrigin, IgnoredReason, LibraryProblem, MetricsProblem, Origin,
    Reading, Scope, SourceId, SourceNote, without_work as still,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// A counter of work that stands still for so long shows a GPU at rest: units may take as long as that.
const STILL_NS: u64 = 1_000_000_000;
/// Standard deviation of a baseline that was measured for a second before the start, as a part of it.
const IDLE_SD: f64 = 0.01;

/// Meters a domain's energy.
pub(super) fn meter(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Metered {
    let (lag, timeline) = in_time(domain, readings, basis);
    let held = held_by_gpu(domain, basis);
    let timeline = held.iter().fold(timeline, |of_all, held| of_all.less(held));
    let busy_before = busy_before(domain, &timeline, basis);
    let power = busy_before.map(|idle| idle.power).or_else(|| without_work(domain, &timeline, basis));
    let power = power.unwrap_or_else(|| basis.recording.idle_power(domain));
    let idle = idle_of(power, &timeline.intervals);
    let above = timeline.intervals.iter().zip(&idle);
    let dynamic: Vec<MicroJoules> = above.map(|(interval, &idle)| interval.energy - idle).collect();
    let idle: MicroJoules = idle.into_iter().sum();
    let covered_ns =
        timeline.intervals.iter().fold(0, |sum: u64, interval| sum.saturating_add(interval.span.ns()));
    let idle_joules =
        idle_sd(domain, idle, busy_before.map_or(0.0, |idle| idle.sd * covered_ns as f64 / 1e9));
    // Nor is it known what the CPUs of a GPU's module drew after the end.
    let after = if held.is_empty() { after_the_end(domain, readings, basis).intervals } else { Vec::new() };
    let idle_after = idle_of(power, &after);
    let above = |(interval, idle): (EnergyInterval, MicroJoules)| (interval, interval.energy - idle);
    let after = after.into_iter().zip(idle_after).map(above).collect();
    let busy_before = busy_before.map(|idle| idle.power);
    Metered { lag, idle, idle_joules, busy_before, dynamic, timeline, after }
}

/// What the domains drew that a GPU's counter holds as well.
fn held_by_gpu(domain: &Domain, basis: &Basis<'_>) -> Vec<Timeline> {
    if !matches!(domain.scope, Scope::Gpu(_)) {
        return Vec::new();
    }
    let readings = |part: &Domain| basis.recording.readings.get(&part.id).map_or(&[][..], Vec::as_slice);
    let held = basis.recording.held_by(domain).into_iter();
    held.map(|part| in_time(part, readings(part), basis).1).collect()
}

/// What its readings say, when it was, and how late they were.
fn in_time(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> (Option<Lag>, Timeline) {
    let lag = lag_of(domain, readings, basis);
    let shifted = lag.map(|lag| shift(readings, lag));
    (lag, timeline_of(domain, shifted.as_deref().unwrap_or(readings), basis, basis.span))
}

/// How late the log of a foreign meter is. The machine's own counters are read on its one clock, and a GPU's
/// work is not the CPUs'.
fn lag_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Option<Lag> {
    let Origin::Counter { source, .. } = &domain.origin else { return None };
    if source.traits().own_clock || matches!(domain.scope, Scope::Gpu(_)) {
        return None;
    }
    fit_lag(readings, basis.segments_of(domain).iter().map(|segment| segment.span), basis.span)
}

/// What a GPU's counter said after the recording's end, as long as it was read.
fn after_the_end(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Timeline {
    let end = basis.span.end;
    let last =
        readings.iter().map(|reading| reading.at).max().filter(|_| matches!(domain.scope, Scope::Gpu(_)));
    last.map(|last| timeline_of(domain, readings, basis, Span::new(end, last))).unwrap_or_default()
}

/// Whether a domain's energy is the sum of its power, which steps when that is read.
fn is_summed(domain: &Domain, recording: &Recording) -> bool {
    let meter = recording.gpu_facts.meters.get(&domain.id);
    let mut notes = recording.header.sources.iter().flat_map(|source| &source.notes);
    let is_power = |note: &SourceNote| matches!(note, SourceNote::PowerReadings { domain: of, .. } if *of == domain.name);
    matches!(&domain.origin, Origin::Counter { source: SourceId::HwmonPower, .. })
        || meter
            .is_some_and(|meter| !matches!(meter.kind, GpuMeterKind::Counter | GpuMeterKind::ModuleCounter))
        || notes.any(is_power)
}

/// What is known of a domain's hardware. The limit of a GPU is not that of the module whose energy its
/// counter may show.
fn physics_of(domain: &Domain, basis: &Basis<'_>) -> Physics {
    let recording = basis.recording;
    let meter = recording.gpu_facts.meters.get(&domain.id);
    let is = |kind| meter.is_some_and(|meter| meter.kind == kind);
    let is_module = is(GpuMeterKind::ModuleCounter);
    let mut notes = recording.header.sources.iter().flat_map(|source| &source.notes);
    let limit = notes.find_map(|note| match note {
        SourceNote::PowerLimit { domain: of, limit } if *of == domain.name => Some(*limit),
        _ => None,
    });
    let physics = Physics::of(domain, basis.cpus.count(domain.scope), limit.filter(|_| !is_module));
    let physics = if is_summed(domain, recording) { physics.summed() } else { physics };
    // A GPU that is not busy has nothing for as long as it likes.
    match is(GpuMeterKind::Utilization) {
        true => Physics { slow: false, still_ns: u64::MAX, never_ns: u64::MAX, ..physics },
        false => physics,
    }
}

/// A core that works draws more than half of this, which no core of a server or laptop comes near.
const WORKING_CORE: MicroWatts = MicroWatts::from_uw(10_000);

/// For how long any of a domain's CPUs was busy in each of these.
fn busy_in(spans: &[EnergyInterval], domain: &Domain, basis: &Basis<'_>) -> Vec<u64> {
    let active = activity(spans, basis.segments_of(domain).busy());
    active.into_iter().map(|active| active.any_ns).collect()
}

fn timeline_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>, span: Span) -> Timeline {
    match &domain.origin {
        Origin::Counter { source, .. } => {
            let physics = physics_of(domain, basis);
            let seen = intervals_of_readings(readings, &physics, span).without_sleep(basis.woke);
            // A core draws nothing at rest, and something while it works.
            let works = (domain.class == DomainClass::Core).then_some(WORKING_CORE);
            let seen = match physics.idle.or(works) {
                Some(idle) => seen.above_idle(idle, |spans| busy_in(spans, domain, basis)),
                None => seen,
            };
            let is_power = source.traits().steps_seldom && !matches!(domain.scope, Scope::Gpu(_));
            let segments = basis.segments_of(domain);
            let seen = match is_power {
                true => seen.without_hanging(basis.cpus.count(domain.scope), || segments.busy()),
                false => seen,
            };
            let seen = match has_loose_bound(domain, source) && !has_unread_gpus(basis.recording) {
                true => seen.without_leap(|| segments.busy(), || gpus(basis)),
                false => seen,
            };
            let is_gpu = matches!(domain.scope, Scope::Gpu(_));
            let counts = is_gpu && !is_summed(domain, basis.recording);
            if counts { Timeline { intervals: regular(&seen.intervals), ..seen } } else { seen }
        }
        Origin::Model { idle, core } => {
            let segments = basis.segments_of(domain);
            let busy = segments.iter().map(|segment| segment.span);
            intervals_of_model(*idle, *core, curve_of(domain, basis), busy, span)
        }
    }
}

/// Whether no bound but that of a whole machine is known for what it can draw.
fn has_loose_bound(domain: &Domain, source: &SourceId) -> bool {
    let is_gpu = matches!(domain.scope, Scope::Gpu(_));
    !is_gpu && (domain.class == DomainClass::Psys || !source.traits().known_hardware)
}

/// What each GPU that is read drew.
fn gpus(basis: &Basis<'_>) -> Vec<Timeline> {
    let recording = basis.recording;
    let readings = |gpu: &Domain| recording.readings.get(&gpu.id).map_or(&[][..], Vec::as_slice);
    let gpus = recording.domains.iter().filter(|domain| matches!(domain.scope, Scope::Gpu(_)));
    gpus.map(|gpu| timeline_of(gpu, readings(gpu), basis, basis.span)).collect()
}

/// Whether GPUs are there that nobody reads.
fn has_unread_gpus(recording: &Recording) -> bool {
    use IgnoredReason as Why;
    let is_absent = |why: &Why| match why {
        Why::Library { problem, .. } => matches!(problem, LibraryProblem::NotLoaded(_)),
        why => matches!(why, Why::NoDevice | Why::NoCards { .. } | Why::Metrics(MetricsProblem::Apu)),
    };
    recording.header.sources.iter().any(|source| match source.id {
        SourceId::Nvml | SourceId::AmdGpu => !source.ignored.iter().all(|of| is_absent(&of.reason)),
        _ => source.ignored.iter().any(|of| of.reason == Why::CardTellsPowerOnly),
    })
}

/// How a model's power goes with the load of its CPUs, where the recording says so and the CPUs are known.
fn curve_of(domain: &Domain, basis: &Basis<'_>) -> Option<LoadCurve> {
    let mut notes = basis.recording.header.sources.iter().flat_map(|source| &source.notes);
    let cpus = basis.cpus.count(domain.scope) as u64;
    notes.find_map(|note| match *note {
        SourceNote::LoadCurve { tenth, half, guest: false } => Some(LoadCurve { cpus, tenth, half }),
        _ => None,
    })
}

/// The idle power of a domain whose CPUs were busy while it was to be measured; `None` where what was
/// measured holds.
#[expect(clippy::cast_precision_loss, reason = "a percentage, a number of CPUs and a time")]
fn busy_before(domain: &Domain, timeline: &Timeline, basis: &Basis<'_>) -> Option<Idle> {
    // What keeps CPUs busy says nothing of a GPU.
    let baseline = domain.idle.as_ref().filter(|_| !matches!(domain.scope, Scope::Gpu(_)))?;
    let (percent, IdleOrigin::Measured { over_ns, .. }) = (baseline.origin.too_busy()?, &baseline.origin)
    else {
        return None;
    };
    let cpus = basis.cpus.count(domain.scope).max(1) as f64;
    let (seconds, busy) = (*over_ns as f64 / 1e9, cpus * percent as f64 / 100.0);
    let before = Before { power: baseline.power, seconds, cpus, busy };
    Some(estimate(before, &timeline.intervals, basis.segments_of(domain).busy()))
}

/// The idle power of a GPU that a recorded program used before the start and of which no launches are known, where its counters of work stand still
/// now and then.
fn without_work(domain: &Domain, timeline: &Timeline, basis: &Basis<'_>) -> Option<MicroWatts> {
    let (Scope::Gpu(device), recording) = (domain.scope, basis.recording) else { return None };
    let gpu = &recording.gpu;
    let has_launches =
        gpu.launches.iter().any(|of| of.device == device) || gpu.busy.iter().any(|of| of.device == device);
    let (_, then) = domain.in_use().filter(|_| !has_launches && recording.used(domain))?;
    let still: Vec<Span> =
        still(&recording.work, STILL_NS).into_iter().map(|(from, to)| Span::new(from, to)).collect();
    let found = power_without_work(&timeline.intervals, (&still, basis.span.start), then.as_watts())?;
    MicroWatts::from_watts(found)
}

/// How far the idle energy may be off (a standard deviation, in joules): what was measured before the start
/// by one part in a hundred, and where it is an estimate by what that is worth; what was given or is a
/// model's parameter by nothing.
fn idle_sd(domain: &Domain, idle: MicroJoules, estimate_sd: f64) -> f64 {
    match domain.idle.as_ref().map(|baseline| &baseline.origin) {
        Some(IdleOrigin::Measured { .. }) => (IDLE_SD * idle.as_joules()).hypot(estimate_sd),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Domain, IdleOrigin, IgnoredReason, MicroJoules, Recording, Scope, SourceId, has_loose_bound,
        has_unread_gpus, idle_sd,
    };
    use energy_trace_model::ids::{DomainId, Pid, ProcessKey, SocketId};
    use energy_trace_model::recording::record::{
        DomainClass, IdleBaseline, Ignored, InUse, Origin, Process, Quality, Source,
    };
    use energy_trace_model::units::MicroWatts;

    fn domain(origin: IdleOrigin, scope: Scope) -> Domain {
        let power = MicroWatts::from_uw(20_000_000);
        Domain {
            id: DomainId::new(0),
            name: String::new(),
            class: DomainClass::Package,
            scope,
            origin: Origin::Model { idle: power, core: power },
            idle: Some(IdleBaseline { power, origin }),
        }
    }

    /// 200 J of idle energy are known to one part in a hundred, and where they are an estimate as well as
    /// that; what was given is exact.
    #[test]
    fn how_sure_idle_energy_is() {
        let origin = IdleOrigin::Measured { over_ns: 1_000_000_000, busy_percent: None };
        let sd = |origin, estimate| {
            let domain = domain(origin, Scope::Socket(SocketId::new(0)));
            idle_sd(&domain, MicroJoules::from_uj(200_000_000), estimate)
        };
        assert!((sd(origin.clone(), 0.0) - 2.0).abs() < 1e-9);
        assert!((sd(origin, 15.0) - 2.0_f64.hypot(15.0)).abs() < 1e-9);
        assert!(sd(IdleOrigin::Given, 15.0).abs() < 1e-9);
    }

    /// What a GPU drew while the recorded program used it is not idle power; what it drew while others did
    /// counts as such. On a whole machine nobody is another, also who has ended and is forgotten.
    #[test]
    fn a_gpu_in_use() {
        let by = InUse { percent: None, pids: vec![7, 8] };
        let origin = Origin::measured("nvml", String::new(), None);
        let gpu = Domain { origin, ..domain(IdleOrigin::InUse(by), Scope::Gpu(0)) };
        let idle = |pid| {
            let process = Process {
                key: ProcessKey::new(0),
                pid: Pid::new(pid),
                parent: None,
                name: String::new(),
                command: vec![],
                runtime: None,
            };
            Recording { processes: vec![process], ..Recording::default() }.idle_power(&gpu).as_uw()
        };
        assert_eq!((idle(8), idle(9)), (0, 20_000_000));
        let mut machine = Recording::default();
        machine.header.system_wide = true;
        assert_eq!(machine.idle_power(&gpu).as_uw(), 0);
    }

    /// Little is known of what the hardware behind a log or a whole machine can draw; much of that behind the
    /// counters of a socket, and of GPUs.
    #[test]
    fn whose_bound_is_loose() {
        let (socket, gpu) = (Scope::Socket(SocketId::new(0)), Scope::Gpu(0));
        let is_loose = |class, scope, source: &str| {
            let domain = Domain { class, ..domain(IdleOrigin::Given, scope) };
            has_loose_bound(&domain, &SourceId::from_name(source))
        };
        assert!(!is_loose(DomainClass::Package, socket, "powercap"));
        assert!(is_loose(DomainClass::Package, socket, "replay"));
        assert!(is_loose(DomainClass::Psys, Scope::Machine, "powercap"));
        assert!(!is_loose(DomainClass::Gpu, gpu, "replay"));
    }

    /// A card that tells its power alone is there and not read; a domain that others hold is no GPU.
    #[test]
    fn gpus_that_nobody_reads() {
        let has = |reason| {
            let ignored = vec![Ignored { domain: String::new(), reason }];
            let mut recording = Recording::default();
            recording.header.sources = vec![Source {
                id: SourceId::Hwmon,
                domains: vec![],
                period_ns: 0,
                quality: Quality::Measured,
                ignored,
                notes: vec![],
            }];
            has_unread_gpus(&recording)
        };
        assert!(has(IgnoredReason::CardTellsPowerOnly) && !has(IgnoredReason::ReadByPowercap));
    }
}
