//! The ledger row of one domain: what its counter or model says, and where that went.

use super::Cpus;
use super::class::ClassId;
use super::intensity::{Intensity, learn};
use super::occupancy::presences;
use super::share::{Weigher, idle_of, split};
use super::time::{CpuTime, OTHER};
use crate::clock::KtimeNs;
use crate::profile::energy_profile::LedgerRow;
use crate::profile::record::{Domain, Origin, Quality, Reading, Scope};
use crate::timeline::{Lag, Span, Timeline, fit_lag, intervals_of_model, intervals_of_readings, shift};
use crate::units::{MicroJoules, MicroWatts};
use std::collections::BTreeMap;

/// Why a GPU's energy above idle is in nobody's row.
pub(super) const NO_LAUNCH_DATA: &str = "no launch data";

/// A domain's row, each owner's part of its `target` (zero for `Other`), and what the doubts are about.
pub(super) struct Account {
    pub(super) row: LedgerRow,
    pub(super) of_owner: Vec<MicroJoules>,
    pub(super) timeline: Timeline,
    pub(super) intensity: Intensity,
    pub(super) negative: MicroJoules,
    /// How late the log of a foreign meter was, where that showed.
    pub(super) lag: Option<Lag>,
}

/// What all domains of a recording share.
pub(super) struct Basis<'a> {
    pub(super) span: Span,
    pub(super) time: &'a CpuTime,
    pub(super) class_of: &'a [ClassId],
    pub(super) cpus: &'a Cpus,
    pub(super) half_period_ns: u64,
    /// When the machine woke up from sleep.
    pub(super) woke: &'a [KtimeNs],
}

/// Accounts for one domain.
pub(super) fn account(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Account {
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
        intensity: Intensity::Single,
        negative: MicroJoules::ZERO,
        lag,
        timeline,
    };
    if matches!(domain.scope, Scope::Gpu(_)) {
        // CPU time says nothing about a GPU: who launched what is not recorded yet.
        account.row.unattributed.insert(NO_LAUNCH_DATA.to_owned(), dynamic.into_iter().sum());
    } else {
        share_out(&mut account, domain, &dynamic, basis);
    }
    account
}

fn share_out(account: &mut Account, domain: &Domain, dynamic: &[MicroJoules], basis: &Basis<'_>) {
    let CpuTime { segments, owners, .. } = basis.time;
    let of_scope = segments.iter().filter(|segment| basis.cpus.covers(domain.scope, segment.cpu));
    let present = presences(&account.timeline.intervals, of_scope);
    if let Origin::Counter { .. } = domain.origin {
        // A model gives every CPU the same power: there is nothing to learn from it.
        account.intensity = learn(&account.timeline.intervals, dynamic, &present, basis.class_of);
    }
    let weigher = Weigher {
        intensity: &account.intensity,
        class_of: basis.class_of,
        half_period_ns: basis.half_period_ns,
    };
    let mut shares = split(dynamic, &present, owners, &weigher);
    if let Some(other) = shares.of_owner.get_mut(OTHER as usize) {
        account.row.other = std::mem::take(other);
    }
    account.row.target = shares.of_owner.iter().copied().sum();
    account.row.residual = shares.residual;
    account.negative = shares.negative;
    account.of_owner = shares.of_owner;
}

/// How late the log of a foreign meter is. The machine's own counters are read on its one clock, and a GPU's work is not the CPUs'.
fn lag_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Option<Lag> {
    let foreign = matches!(&domain.origin, Origin::Counter { source, .. } if source == "replay");
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

/// Where a domain's numbers come from. Shares of a counter are at best apportioned: `LedgerRow::split_quality`.
fn quality(domain: &Domain) -> Quality {
    match domain.origin {
        Origin::Counter { quality, .. } => quality,
        Origin::Model { .. } => Quality::Estimated,
    }
}
