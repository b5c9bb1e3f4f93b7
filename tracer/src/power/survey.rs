//! What `doctor` shows: every source that this version knows, what it would give and why not.
//!
//! Leaves out the choice for a run (`set.rs`); a survey never fails and keeps nothing open.

use super::plan::{PowerPlan, SourceChoice};
use super::replay::{self, Replay};
use super::{PowerSource, Remark, amdgpu, filter, hwmon, model, nvml, perf, powercap};
use crate::profile::record::{Ignored, Quality, Source};
use std::time::Duration;

/// How long meters are watched: five steps of the slowest.
const WATCHED: Duration = Duration::from_millis(650);

/// What there is, and what to know of it.
#[derive(Debug)]
pub struct Survey {
    /// Every source with its domains, and what is ignored and why. The model comes last, with a remark on whether `auto` would use it.
    pub sources: Vec<Source>,
    /// What a reader should know before believing their numbers.
    pub remarks: Vec<Remark>,
}

/// Looks at everything; GPUs for half a second, to see how their meters step.
pub fn survey(plan: &PowerPlan) -> Survey {
    let mut sources = vec![powercap::find(&plan.sysfs, plan.period).source];
    let mut pmus = perf::find(&plan.sysfs, plan.period).source;
    let known = sources.iter().flat_map(|s| s.domains.clone()).collect::<Vec<_>>();
    let (same, new) = pmus.domains.drain(..).partition::<Vec<_>, _>(|name| known.contains(name));
    pmus.domains = new;
    let why = "powercap reads it; the two are compared before the start";
    pmus.ignored.extend(same.into_iter().map(|domain| Ignored { domain, why: why.to_owned() }));
    sources.push(pmus);
    if let Some(rapl) = sources.iter_mut().find(|source| !source.domains.is_empty()) {
        rapl.notes.extend(filter::describe_here());
    }
    let found = nvml::find(plan.nvml_lib.as_deref(), plan.period, plan.measured_only);
    let (mut gpus, remarks) = (found.source, found.remarks);
    if let (Some(mut hardware), true) = (found.gpus, plan.gpu) {
        gpus.notes.extend(calibrate(&mut hardware));
    }
    if !plan.gpu {
        let why = "GPUs are switched off (--gpu off)".to_owned();
        gpus.ignored.extend(gpus.domains.drain(..).map(|domain| Ignored { domain, why: why.clone() }));
    }
    let mut first_gpu = u32::try_from(gpus.domains.len()).unwrap_or(u32::MAX);
    sources.push(gpus);
    let mut cards = amdgpu::find(&plan.sysfs, first_gpu, plan.period).source;
    if !plan.gpu {
        let why = "GPUs are switched off (--gpu off)".to_owned();
        cards.ignored.extend(cards.domains.drain(..).map(|domain| Ignored { domain, why: why.clone() }));
    }
    first_gpu = first_gpu.saturating_add(u32::try_from(cards.domains.len()).unwrap_or(u32::MAX));
    // A machine without such a card has no line for it.
    sources.extend(Some(cards).filter(|cards| !cards.domains.is_empty() || !cards.ignored.is_empty()));
    sources.push(hwmon::find(&plan.sysfs, first_gpu, plan.period).source);
    sources.extend(plan.choices.iter().filter_map(survey_replay));
    let counted =
        sources.iter().any(|s| s.domains.iter().any(|d| d.starts_with("package") || d.starts_with("cpu")));
    let mut model = model::model_at(&plan.sysfs, plan.model_idle.or(plan.idle), plan.model_core).source;
    if counted || plan.measured_only {
        let why = if counted { "the CPUs have a counter" } else { "--measured-only refuses estimates" };
        model.ignored.extend(model.domains.drain(..).map(|domain| Ignored { domain, why: why.to_owned() }));
    }
    sources.push(model);
    Survey { sources, remarks }
}

/// Watches meters for a moment and returns what can be said of them.
fn calibrate(hardware: &mut dyn PowerSource) -> Vec<String> {
    let tracks = hardware.calibrator().map(|calibrator| calibrator(WATCHED));
    tracks.map(|tracks| hardware.learn(tracks)).unwrap_or_default()
}

fn survey_replay(choice: &SourceChoice) -> Option<Source> {
    let SourceChoice::Replay(file) = choice else { return None };
    Some(Replay::open(file).map_or_else(|e| unusable(e.to_string()), |replay| replay.describe()))
}

fn unusable(why: String) -> Source {
    Source {
        name: replay::NAME.to_owned(),
        domains: Vec::new(),
        period_ns: 0,
        quality: Quality::Measured,
        ignored: vec![Ignored { domain: replay::NAME.to_owned(), why }],
        notes: Vec::new(),
    }
}
