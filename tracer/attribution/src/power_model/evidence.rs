//! What a domain's powers are learned from: its energy by interval, and who ran when.
//!
//! Leaves out the regression (`learn`).

use super::classes::ClassId;
use crate::between_samples::markov_bridge::Part;
use crate::time::occupancy::Presence;
use crate::time::pieces::Mark;
use crate::timeline::EnergyInterval;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

/// What a domain's watts are learned from.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) intervals: &'a [EnergyInterval],
    /// Energy above idle of each interval.
    pub(crate) dynamic: &'a [MicroJoules],
    pub(crate) presences: &'a [Presence],
    pub(crate) parts: &'a [Part],
    pub(crate) marks: &'a [Mark],
    pub(crate) start: KtimeNs,
    pub(crate) class_of: &'a [ClassId],
    /// Variance (ms²) of how late the counter was at each interval's begin, and at the last one's end (`reading_jitter`).
    pub(crate) reading_jitter: &'a [f64],
    /// How far behind the counter is taken to be (`counter_delay`); intervals and parts are that much earlier.
    pub(crate) delay_ns: u64,
}
