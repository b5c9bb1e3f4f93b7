//! The ledger row of one domain: what its counter or model says, and where that went.

use crate::gpu::{Charged, Gpu, Learned};
use crate::power_model::classes::ClassId;
use crate::power_model::counter_delay::{Seen, learn_behind, learn_company};
use crate::power_model::counter_edges::Edges;
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::{Intensity, learn};
use crate::power_model::uncore::{activity, calibrate, is_less_together, take};
use crate::split::by_time::{Shares, by_time, idle_of, split};
use crate::split::idle::hand_out;
use crate::split::posterior::Splitter;
use crate::time::conditions::Conditions;
use crate::time::contention::Company;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::Launchers;
use crate::time::occupancy::{Presence, presences};
use crate::time::owners::{OTHER, Owner, Segment};
use crate::timeline::reading_jitter;
use crate::timeline::{
    EnergyInterval, Lag, Span, Timeline, fit_lag, intervals_of_model, intervals_of_readings, shift,
};
use crate::uncertainty::propagation::{OwnerCertainty, certainty};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::options::{Accounting, Method};
use energy_trace_model::profile::{LedgerRow, UnattributedReason};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Domain, Origin, Quality, Reading, Scope, SourceId};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::collections::BTreeMap;

/// A baseline measured for a second before the start is taken to be this sure.
const IDLE_DOUBT: f64 = 0.01;

/// A domain's row, each owner's part of its `target` (zero for `Other`), and what the doubts are about.
pub(crate) struct Account {
    pub(crate) row: LedgerRow,
    pub(crate) of_owner: Vec<MicroJoules>,
    /// The same if all drew the same power.
    pub(crate) by_time: Vec<MicroJoules>,
    pub(crate) certainty: OwnerCertainty,
    pub(crate) timeline: Timeline,
    pub(crate) intensity: Intensity,
    /// Whether its watts split the energy.
    pub(crate) weighted: bool,
    /// η of hardware threads that shared a core (`smt.rs`); `None` where none did.
    pub(crate) eta: Option<f64>,
    /// The exponent by which power goes with the clock (`frequency.rs`); `None` where clocks are not known, do not differ or did not help.
    pub(crate) exponent: Option<f64>,
    /// η of CPUs that drew less beside any others (`contention.rs`); `None` where that did not show.
    pub(crate) company: Option<f64>,
    pub(crate) negative: MicroJoules,
    /// How late the log of a foreign meter was, where that showed.
    pub(crate) lag: Option<Lag>,
    /// Standard deviation of the idle energy in joules.
    pub(crate) idle_joules: f64,
    /// What launches on a GPU showed.
    pub(crate) launched: Option<Learned>,
}

/// What all domains of a recording share.
pub(crate) struct Basis<'a> {
    pub(crate) span: Span,
    pub(crate) time: &'a CpuTime,
    pub(crate) class_of: &'a [ClassId],
    pub(crate) cpus: &'a Cpus,
    pub(crate) accounting: Accounting,
    /// When the machine woke up from sleep.
    pub(crate) woke: &'a [KtimeNs],
    pub(crate) recording: &'a Recording,
    pub(crate) launchers: &'a Launchers,
    pub(crate) conditions: &'a Conditions,
}

/// Accounts for one domain.
pub(crate) fn account(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Account {
    let lag = lag_of(domain, readings, basis);
    let shifted = lag.map(|lag| shift(readings, lag));
    let timeline = timeline_of(domain, shifted.as_deref().unwrap_or(readings), basis);
    let idle = idle_of(idle_power(domain), &timeline.intervals);
    let dynamic: Vec<MicroJoules> =
        timeline.intervals.iter().zip(&idle).map(|(interval, &idle)| interval.energy - idle).collect();
    let mut account = Account {
        row: LedgerRow {
            domain: domain.name.clone(),
            class: domain.class,
            quality: quality(domain),
            measured: timeline.energy(),
            target: MicroJoules::ZERO,
            other: MicroJoules::ZERO,
            idle: idle.into_iter().sum(),
            uncore: MicroJoules::ZERO,
            residual: MicroJoules::ZERO,
            unattributed: BTreeMap::new(),
        },
        of_owner: vec![MicroJoules::ZERO; basis.time.owners.len()],
        by_time: vec![MicroJoules::ZERO; basis.time.owners.len()],
        certainty: OwnerCertainty::default(),
        intensity: Intensity::Single,
        weighted: false,
        eta: None,
        company: None,
        exponent: None,
        negative: MicroJoules::ZERO,
        lag,
        idle_joules: 0.0,
        launched: None,
        timeline,
    };
    account.idle_joules = idle_doubt(domain, account.row.idle);
    if let Scope::Gpu(device) = domain.scope {
        share_gpu(&mut account, device, &dynamic, basis);
    } else {
        share_out(&mut account, domain, &dynamic, basis);
    }
    account
}

/// CPU time says nothing about a GPU: its energy goes to those who launched, where launches were recorded.
fn share_gpu(account: &mut Account, device: u32, dynamic: &[MicroJoules], basis: &Basis<'_>) {
    let Basis { recording, launchers, span, .. } = *basis;
    let gpu = Gpu { recording, device, launchers, start: span.start, intervals: &account.timeline.intervals };
    let Some(charged) = gpu.charge(dynamic, basis.time.owners.len()) else {
        account.row.unattributed.insert(UnattributedReason::NoLaunchData, dynamic.iter().copied().sum());
        return;
    };
    let Charged { mut of_owner, by_prior, residual, negative, unlooked, idle, certainty, learned } = charged;
    if unlooked != MicroJoules::ZERO {
        account.row.unattributed.insert(UnattributedReason::SensorBlindSpot, unlooked);
    }
    account.row.other = std::mem::take(&mut of_owner[OTHER as usize]);
    account.row.target = of_owner.iter().copied().sum();
    account.row.idle += idle;
    (account.row.residual, account.negative) = (residual, negative);
    (account.of_owner, account.by_time) = (of_owner, by_prior);
    (account.certainty, account.launched) = (certainty, Some(learned));
}

fn share_out(account: &mut Account, domain: &Domain, dynamic: &[MicroJoules], basis: &Basis<'_>) {
    let CpuTime { pieces, owners, marks, .. } = basis.time;
    let intervals = account.timeline.intervals.as_slice();
    let present = presences(intervals, of_domain(basis, domain));
    let of_scope = pieces.iter().filter(|piece| basis.cpus.covers(domain.scope, piece.cpu));
    let mut dynamic = dynamic.to_vec();
    let (mut late, mut seen) = (vec![], Seen::default());
    // A model gives every CPU the same power: there is nothing to learn from it.
    if let Origin::Counter { .. } = domain.origin {
        let busy = of_domain(basis, domain).map(|segment| segment.span);
        late = reading_jitter::settle(intervals, account.row.idle, &mut dynamic, busy);
        let evidence = basis.evidence(&dynamic, &present, &late);
        (seen, account.intensity) = learn_behind(intervals, &of_scope, basis.conditions, &evidence);
        let active = activity(&seen.intervals, of_domain(basis, domain));
        if let Some(power) = calibrate(&account.intensity, &active, basis.accounting) {
            account.row.uncore = take(power, &active, &mut dynamic);
            account.intensity = learn(&basis.evidence(&dynamic, &present, &late).seen(&seen));
        } else if basis.recording.cores.is_empty()
            && is_less_together(&account.intensity, &active)
            && let Some(company) = Company::of(of_domain(basis, domain))
        {
            let alone = (seen, std::mem::replace(&mut account.intensity, Intensity::Single));
            let evidence = basis.evidence(&dynamic, &present, &late);
            (seen, account.intensity) = learn_company(alone, &company, &evidence);
            account.company = seen.eta;
        }
    }
    let dynamic = dynamic.as_slice();
    let steps = steps_of(intervals);
    let plain = split(dynamic, &present, owners.len());
    let settled = account.intensity.model().map(|model| {
        let edges = Edges::new(
            &basis.evidence(dynamic, &present, &late).seen(&seen),
            &model.design.shares,
            &model.fit.watts,
            &model.chains,
        );
        let splitter = Splitter { model, class_of: basis.class_of, owners, marks, edges };
        splitter.split(dynamic, &steps, &seen.parts, |interval| by_time(&present, interval))
    });
    let weighted =
        matches!(account.intensity, Intensity::Known(_)) && basis.accounting.method == Method::Weighted;
    account.weighted = weighted;
    account.exponent = seen.exponent;
    account.eta = seen.eta.filter(|_| account.company.is_none());
    let variance = settled.as_ref().map(|settled| settled.variance.clone());
    let shares = match settled {
        Some(settled) if weighted => settled.shares,
        _ => plain.clone(),
    };
    account.certainty =
        certainty(&account.intensity, weighted, variance, &shares.of_owner, (basis.time, basis.class_of));
    account.certainty.seconds = seconds_of(&present, owners.len());
    charge(account, shares, plain, &present, basis);
}

impl<'a> Basis<'a> {
    /// What a domain's watts are learned from, but for its intervals.
    fn evidence(
        &self,
        dynamic: &'a [MicroJoules],
        presences: &'a [Presence],
        late: &'a [f64],
    ) -> Evidence<'a> {
        let (marks, class_of) = (self.time.marks.as_slice(), self.class_of);
        let (intervals, parts, behind_ns) = (&[][..], &[][..], 0);
        let start = self.span.start;
        Evidence { intervals, dynamic, presences, parts, marks, start, class_of, late, behind_ns }
    }
}

/// Enters the shares into the row, and hands out the idle baseline as was chosen.
fn charge(account: &mut Account, shares: Shares, plain: Shares, present: &[Presence], basis: &Basis<'_>) {
    let (owners, policy) = (&basis.time.owners, basis.accounting.idle);
    let mut of_owner = shares.of_owner;
    let mut by_time = plain.of_owner;
    let kept = hand_out(policy, account.row.idle, &mut of_owner, present, owners);
    hand_out(policy, account.row.idle, &mut by_time, present, owners);
    account.row.idle = kept;
    for (number, owner) in owners.iter().enumerate() {
        if !matches!(owner.owner, Owner::Target(..)) {
            account.row.other += std::mem::take(&mut of_owner[number]);
            by_time[number] = MicroJoules::ZERO;
        }
    }
    account.row.target = of_owner.iter().copied().sum();
    account.row.residual = shares.residual;
    account.negative = shares.negative;
    (account.of_owner, account.by_time) = (of_owner, by_time);
}

fn of_domain<'a>(basis: &Basis<'a>, domain: &Domain) -> impl Iterator<Item = &'a Segment> {
    let (cpus, scope) = (basis.cpus, domain.scope);
    basis.time.segments.iter().filter(move |segment| cpus.covers(scope, segment.cpu))
}

/// By how many watts each interval differs from the one before it.
#[expect(clippy::cast_precision_loss, reason = "a statistic")]
fn steps_of(intervals: &[EnergyInterval]) -> Vec<f64> {
    let watts =
        |interval: &EnergyInterval| interval.energy.as_joules() * 1e9 / interval.span.ns().max(1) as f64;
    let mut before = intervals.first().map_or(0.0, watts);
    let step = |interval| {
        let now = watts(interval);
        (now - std::mem::replace(&mut before, now)).abs()
    };
    intervals.iter().map(step).collect()
}

/// CPU seconds of each owner.
fn seconds_of(present: &[Presence], owners: usize) -> Vec<f64> {
    let mut ns = vec![0_u64; owners];
    for presence in present {
        ns.get_mut(presence.owner as usize)
            .into_iter()
            .for_each(|sum| *sum = sum.saturating_add(presence.ns));
    }
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    ns.into_iter().map(|ns| ns as f64 / 1e9).collect()
}

/// How late the log of a foreign meter is. The machine's own counters are read on its one clock, and a GPU's work is not the CPUs'.
fn lag_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Option<Lag> {
    let foreign = matches!(&domain.origin, Origin::Counter { source: SourceId::Replay, .. });
    if !foreign || matches!(domain.scope, Scope::Gpu(_)) {
        return None;
    }
    let of_scope = basis.time.segments.iter().filter(|segment| basis.cpus.covers(domain.scope, segment.cpu));
    fit_lag(readings, of_scope.map(|segment| segment.span), basis.span)
}

fn timeline_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Timeline {
    match &domain.origin {
        Origin::Counter { max_range, .. } => {
            let slow = matches!(domain.scope, Scope::Gpu(_));
            intervals_of_readings(readings, *max_range, slow, basis.span).without_sleep(basis.woke)
        }
        Origin::Model { idle, core } => {
            let of_scope =
                basis.time.segments.iter().filter(|segment| basis.cpus.covers(domain.scope, segment.cpu));
            intervals_of_model(*idle, *core, of_scope.map(|segment| segment.span), basis.span)
        }
    }
}

/// The idle baseline: what was found before the start, or the model's own.
fn idle_power(domain: &Domain) -> MicroWatts {
    match (&domain.idle, &domain.origin) {
        (_, Origin::Model { idle, .. }) => *idle,
        (Some(baseline), Origin::Counter { .. }) => baseline.power,
        (None, Origin::Counter { .. }) => MicroWatts::default(),
    }
}

/// How far the idle energy may be off (a standard deviation, in joules): what was measured before the start by one part in a hundred,
/// what was given or is a model's parameter by nothing.
fn idle_doubt(domain: &Domain, idle: MicroJoules) -> f64 {
    let measured = domain.idle.as_ref().is_some_and(|baseline| baseline.origin.is_measured());
    if measured { idle.as_joules() * IDLE_DOUBT } else { 0.0 }
}

/// Where a domain's numbers come from. Shares of a counter are at best apportioned: `LedgerRow::split_quality`.
fn quality(domain: &Domain) -> Quality {
    match domain.origin {
        Origin::Counter { quality, .. } => quality,
        Origin::Model { .. } => Quality::Estimated,
    }
}
