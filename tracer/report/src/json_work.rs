//! Units of work as the JSON report has them. Leaves out how they come about (`work.rs`).

use super::json::{ByClass, by_class, ci95_uj};
use super::run;
use super::work::{Known, WorkDone, works};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::work::Stretch;
use serde::Serialize;

/// One kind of work: for each class `energy_uj` + `rest_uj` = Σ `target_uj` of the ledger.
#[derive(Serialize)]
pub(super) struct WorkLine {
    name: String,
    source: String,
    units: f64,
    units_at_least: bool,
    covered_ns: u64,
    energy_uj: ByClass,
    rest_uj: ByClass,
    idle_uj: ByClass,
    uj_per_unit: Option<f64>,
    ci95_uj: Option<[i64; 2]>,
    ci95_uj_per_unit: Option<[Option<f64>; 2]>,
    readings: u64,
    restarts: u64,
    gone: u64,
    still_ns: u64,
    failure: Option<&'static str>,
    over_time: Vec<StepLine>,
}

/// From one reading to another.
#[derive(Serialize)]
struct StepLine {
    from_ns: u64,
    to_ns: u64,
    units: f64,
    energy_uj: Option<i64>,
    edges_uj: i64,
}

/// All kinds of work, where any was asked for.
pub(super) fn work_lines(profile: &Profile) -> Vec<WorkLine> {
    works(profile).iter().map(|done| WorkLine::of(profile, done)).collect()
}

impl WorkLine {
    fn of(profile: &Profile, done: &WorkDone<'_>) -> Self {
        let energy = run::chosen(&done.energy, run::headline(profile));
        let known = &done.work.found;
        let each = |end| done.uj_per_unit(end);
        // JSON has no number for "any".
        let per_unit = done
            .ci95_per_unit()
            .map(|[least, most]| [Some(least), Some(most).filter(|most| *most < f64::MAX)]);
        Self {
            name: done.name().to_owned(),
            source: done.work.series.counter.source.words(),
            units: done.units.as_number(),
            units_at_least: done.at_least,
            covered_ns: done.covered_ns,
            energy_uj: by_class(&done.energy),
            rest_uj: by_class(&done.rest),
            idle_uj: by_class(&done.idle),
            uj_per_unit: each(energy),
            ci95_uj: ci95_uj(done.uncertainty.as_ref().filter(|_| done.known == Known::All)),
            ci95_uj_per_unit: per_unit,
            readings: known.read,
            restarts: known.restarts,
            gone: known.gone,
            still_ns: known.still_ns,
            failure: known.failure.as_ref().map(|failure| failure.name()),
            over_time: done.work.steps.iter().map(|step| StepLine::of(profile, step)).collect(),
        }
    }
}

impl StepLine {
    fn of(profile: &Profile, step: &Stretch) -> Self {
        let choice = run::headline(profile);
        Self {
            from_ns: step.from.ns_since(profile.run.start),
            to_ns: step.to.ns_since(profile.run.start),
            units: step.units.as_number(),
            energy_uj: run::split_quality(profile, choice).map(|_| run::chosen(&step.energy, choice).as_uj()),
            edges_uj: run::chosen(&step.edges, choice).as_uj(),
        }
    }
}
