//! How far behind a counter is on average.
//!
//! A counter that moves each millisecond shows at a reading what was spent until up to a millisecond before:
//! half of one on average. Where power steps up, that half millisecond of the step is in the next interval,
//! each time: a function that always runs first after a pause seems to draw less than nothing, and what
//! follows it pays. So intervals are taken to be as much earlier, if the energy of windows becomes likelier
//! by that. A run whose power never steps shows nothing, and there it makes no difference.
//!
//! Leaves out the log of a foreign meter, which is seconds off (`timeline::lag`), and a counter that follows
//! slowly (`lag`).

use super::trial::{Candidate, Trial};
use crate::power_model::settings::Settings;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;

/// What a counter may be behind: one that moves each millisecond, or each other one.
const DELAYS_NS: [u64; 2] = [500_000, 1_000_000];

/// Intervals as a counter saw them that is so late.
pub(super) fn apply(settings: &Settings, intervals: &[EnergyInterval]) -> Vec<EnergyInterval> {
    let earlier = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(settings.delay_ns));
    let shifted = |interval: &EnergyInterval| EnergyInterval {
        span: Span { start: earlier(interval.span.start), end: earlier(interval.span.end) },
        ..*interval
    };
    intervals.iter().map(shifted).collect()
}

/// Takes a delay where energies are clearly likelier with it.
pub(super) fn detect<'p>(trial: &Trial<'_, 'p>, best: &mut Candidate<'p>) -> bool {
    let settings = best.adjusted.settings;
    let others = DELAYS_NS.map(|delay_ns| Settings { delay_ns, ..settings });
    trial.choose(best, others.into_iter().map(|settings| trial.adjusted(settings)))
}
