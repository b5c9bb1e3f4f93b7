//! Phases as the page draws them below the power: which bins each has, its energy, and what tells it from the others.
//!
//! Leaves out how they are found (`crate::phases`).

use crate::phases::told;
use crate::run;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::Bins;
use energy_trace_model::profile::phases::{Phase, Phases};
use energy_trace_model::profile::stretches::Span;
use energy_trace_names::shown::shown;
use serde::Serialize;

/// A phase: of each stretch the first bin and the one behind the last, microjoules, and what tells it from the others.
#[derive(Serialize)]
pub(super) struct PhaseLine {
    name: String,
    bins: Vec<[u32; 2]>,
    energy: i64,
    told_by: String,
}

/// All of them; one alone is no phase.
pub(super) fn lines(profile: &Profile, phases: &Phases, bins: Bins) -> Vec<PhaseLine> {
    let choice = run::headline(profile);
    let since = |at: KtimeNs| at.ns_since(profile.run.start);
    let span = |(from, to): &Span| bins.touched(since(*from), since(*to));
    let line = |(number, phase): (usize, &Phase)| PhaseLine {
        name: format!("phase {number}"),
        bins: phase.stretches.iter().map(span).map(|bins| [bins.start, bins.end]).collect(),
        energy: run::chosen(&phase.energy, choice).as_uj(),
        told_by: shown(&phase.told_by.iter().map(told).collect::<Vec<_>>().join("; ")).into_owned(),
    };
    let several = (1..).zip(&phases.found).filter(|_| phases.found.len() > 1);
    several.map(line).collect()
}
