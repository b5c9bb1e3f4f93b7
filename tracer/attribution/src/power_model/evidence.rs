//! What a domain's powers are learned from: its energy by interval, and who ran when.
//!
//! Leaves out the regression (`learn`) and the corrections of what is seen (`corrections`).

use super::adjusted::Adjusted;
use super::carried::Known;
use super::paths::PathTree;
use super::settings::Settings;
use crate::between_samples::interval_slices::IntervalSlices;
use crate::time::inter_sample::SamplePoint;
use crate::timeline::EnergyInterval;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

/// What a domain's powers are learned from.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) intervals: &'a [EnergyInterval],
    /// Energy above idle of each interval.
    pub(crate) dynamic: &'a [MicroJoules],
    pub(crate) slices: &'a IntervalSlices<'a>,
    pub(crate) points: &'a [SamplePoint],
    pub(crate) start: KtimeNs,
    pub(crate) tree: &'a PathTree,
    /// What earlier windows have shown of its powers.
    pub(crate) carried: Option<&'a Known>,
    pub(crate) settings: Settings,
}

impl<'a> Evidence<'a> {
    /// With intervals and the times in them as corrections have them.
    pub(crate) fn adjusted<'s>(&self, adjusted: &'s Adjusted<'_>) -> Evidence<'s>
    where
        'a: 's,
    {
        let Adjusted { intervals, slices, settings } = adjusted;
        Evidence { intervals, slices, settings: *settings, ..*self }
    }
}
