//! What a domain's powers are learned from: its energy by interval, and who ran when.
//!
//! Leaves out the regression (`learn`).

use super::paths::PathTree;
use crate::between_samples::parts::Parts;
use crate::time::pieces::Mark;
use crate::timeline::EnergyInterval;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

/// What a domain's powers are learned from.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) intervals: &'a [EnergyInterval],
    /// Energy above idle of each interval.
    pub(crate) dynamic: &'a [MicroJoules],
    pub(crate) parts: &'a Parts<'a>,
    pub(crate) marks: &'a [Mark],
    pub(crate) start: KtimeNs,
    pub(crate) tree: &'a PathTree,
    /// How far behind the counter is taken to be (`counter_delay`); intervals and parts are that much earlier.
    pub(crate) delay_ns: u64,
    /// By which first-order lag power follows what runs, or the counter follows power (`counter_delay`).
    pub(crate) lag_ns: u64,
    /// Whether a column may draw more or less beside busy CPUs; then parts say how busy these were.
    pub(crate) crowded: bool,
    /// Whether changes of all power at once are followed (`drift`).
    pub(crate) drifting: bool,
}
