//! Joules per unit of work over time, as the page draws them below the power: in each bin those of the steps
//! of the counter that touch it.
//!
//! Leaves out all but the first units.

use crate::run;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::Bins;
use energy_trace_model::profile::work::{Stretch, Work};
use energy_trace_model::recording::record::{Quality, WorkUnits};
use energy_trace_names::shown::shown;
use serde::Serialize;

/// Charts of units in a page.
const MOST: usize = 4;

/// Microjoules of a unit in each bin, where they are known.
#[derive(Serialize)]
pub(super) struct UnitLine {
    name: String,
    is_estimated: bool,
    values: Vec<Option<f64>>,
}

/// The first units, and how many more there are.
pub(super) fn lines(profile: &Profile, bins: Bins) -> (Vec<UnitLine>, usize) {
    let Some(quality) = run::split_quality(profile, run::headline(profile)) else { return (vec![], 0) };
    let line = |work: &Work| UnitLine {
        name: shown(&work.series.counter.name).into_owned(),
        is_estimated: quality == Quality::Estimated,
        values: (0..bins.count()).map(|bin| value(profile, &work.steps, bins, bin)).collect(),
    };
    let is_known = |work: &&Work| work.steps.iter().any(|step| step.units > WorkUnits::ZERO);
    let known: Vec<&Work> = profile.work.iter().filter(is_known).collect();
    let more = known.len().saturating_sub(MOST);
    (known.into_iter().take(MOST).map(line).collect(), more)
}

/// The mean of the steps that touch a bin, each as far as it does; time in which no unit was done has no number.
fn value(profile: &Profile, steps: &[Stretch], bins: Bins, bin: u32) -> Option<f64> {
    let (start, end) = bins.span(bin);
    let choice = run::headline(profile);
    let (mut uj, mut units) = (0.0, 0.0);
    for step in steps.iter().filter(|step| step.units > WorkUnits::ZERO) {
        let within_ns = step.to.min(end).ns_since(step.from.max(start));
        let part = within_ns as f64 / step.to.ns_since(step.from).max(1) as f64;
        uj += part * run::chosen(&step.energy, choice).as_uj() as f64;
        units += part * step.units.as_number();
    }
    (units > 0.0).then(|| (uj / units).max(0.0))
}
