//! What a domain's counter or model says: intervals of energy, and how much of each is the idle baseline's.
//!
//! Leaves out who used the rest.

use super::basis::Basis;
use crate::split::by_time::idle_of;
use crate::timeline::{Lag, Timeline, fit_lag, intervals_of_model, intervals_of_readings, shift};
use energy_trace_model::recording::record::{Domain, Origin, Reading, Scope, SourceId};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Standard deviation of a baseline that was measured for a second before the start, as a part of it.
const IDLE_SD: f64 = 0.01;

/// A domain's energy before anybody is charged.
pub(super) struct Metered {
    /// How late the log of a foreign meter was, where that showed.
    pub(super) lag: Option<Lag>,
    pub(super) timeline: Timeline,
    /// The idle baseline's energy, and its standard deviation in joules.
    pub(super) idle: MicroJoules,
    pub(super) idle_joules: f64,
    /// Energy above idle of each interval.
    pub(super) dynamic: Vec<MicroJoules>,
}

impl Metered {
    pub(super) fn of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Self {
        let lag = lag_of(domain, readings, basis);
        let shifted = lag.map(|lag| shift(readings, lag));
        let timeline = timeline_of(domain, shifted.as_deref().unwrap_or(readings), basis);
        let idle = idle_of(idle_power(domain), &timeline.intervals);
        let above = timeline.intervals.iter().zip(&idle);
        let dynamic = above.map(|(interval, &idle)| interval.energy - idle).collect();
        let idle: MicroJoules = idle.into_iter().sum();
        Self { lag, idle, idle_joules: idle_sd(domain, idle), dynamic, timeline }
    }
}

/// How late the log of a foreign meter is. The machine's own counters are read on its one clock, and a GPU's work is not the CPUs'.
fn lag_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Option<Lag> {
    let foreign = matches!(&domain.origin, Origin::Counter { source: SourceId::Replay, .. });
    if !foreign || matches!(domain.scope, Scope::Gpu(_)) {
        return None;
    }
    fit_lag(readings, basis.segments_of(domain).iter().map(|segment| segment.span), basis.span)
}

fn timeline_of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Timeline {
    match &domain.origin {
        Origin::Counter { max_range, .. } => {
            let slow = matches!(domain.scope, Scope::Gpu(_));
            intervals_of_readings(readings, *max_range, slow, basis.span).without_sleep(basis.woke)
        }
        Origin::Model { idle, core } => {
            let segments = basis.segments_of(domain);
            let busy = segments.iter().map(|segment| segment.span);
            intervals_of_model(*idle, *core, busy, basis.span)
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
fn idle_sd(domain: &Domain, idle: MicroJoules) -> f64 {
    let measured = domain.idle.as_ref().is_some_and(|baseline| baseline.origin.is_measured());
    if measured { idle.as_joules() * IDLE_SD } else { 0.0 }
}
