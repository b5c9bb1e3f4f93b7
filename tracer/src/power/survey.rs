//! What `doctor` shows: every source that this version knows, what it would give and why not.
//!
//! The sources are chosen by the same code as for a run (`set.rs`), as `auto` does. Leaves out reading them: a survey never fails and keeps
//! nothing open.

use super::error::PowerError;
use super::plan::{PowerPlan, SourceChoice};
use super::set::PowerSet;
use super::sources::replay::{self, Replay};
use super::sources::{amdgpu, hwmon, model, nvml, perf, powercap};
use energy_trace_model::recording::record::{
    Ignored, IgnoredReason, PowerDiagnostic, Quality, Source, SourceKind,
};
use std::time::Duration;

/// How long meters are watched: five steps of the slowest.
const WATCHED: Duration = Duration::from_millis(650);

/// What there is, and what to know of it.
#[derive(Debug)]
pub struct Survey {
    /// Every source with its domains, and what is ignored and why. The model comes last, with a remark on whether `auto` would use it.
    pub sources: Vec<Source>,
    /// What a reader should know before believing their numbers.
    pub of_devices: Vec<PowerDiagnostic>,
}

/// Looks at everything; GPUs for half a second, to see how their meters step.
pub fn survey(plan: &PowerPlan) -> Survey {
    let mut set = PowerSet::empty(plan.period);
    offer(&mut set, powercap::NAME, |set| set.add_powercap(plan, false));
    offer(&mut set, perf::NAME, |set| set.add_perf(plan, false));
    if plan.gpu {
        offer(&mut set, nvml::NAME, |set| set.add_nvml(plan, false));
        offer(&mut set, amdgpu::NAME, |set| set.add_amdgpu(plan, false));
    } else {
        add_switched_off(&mut set, plan);
    }
    offer(&mut set, hwmon::NAME, |set| set.add_hwmon(plan, false));
    for choice in &plan.choices {
        if let SourceChoice::Replay(file) = choice {
            offer(&mut set, replay::NAME, |set| set.add_replay(Replay::open(file)?));
        }
    }
    match set.why_no_model(plan) {
        None => offer(&mut set, model::NAME, |set| set.add_model(plan)),
        Some(why) => {
            let model = model::model_at(&plan.sysfs, plan.model_idle.or(plan.idle), plan.model_core).source;
            set.add_source(without(model, &why));
        }
    }
    let (sources, of_devices) = set.examine(WATCHED);
    Survey { sources, of_devices }
}

/// Shows the GPUs that a run with `--gpu off` leaves alone; a machine without an AMD card has no line for it.
fn add_switched_off(set: &mut PowerSet, plan: &PowerPlan) {
    set.add_source(without(
        nvml::find(plan.nvml_lib.as_deref(), plan.period, plan.measured_only).source,
        &IgnoredReason::GpusOff,
    ));
    let cards = amdgpu::find(&plan.sysfs, 0, plan.period).source;
    if !cards.domains.is_empty() || !cards.ignored.is_empty() {
        set.add_source(without(cards, &IgnoredReason::GpusOff));
    }
}

/// Adds a source; one that cannot be taken says why.
fn offer(set: &mut PowerSet, name: &str, add: impl FnOnce(&mut PowerSet) -> Result<(), PowerError>) {
    if let Err(error) = add(set) {
        set.add_source(Source {
            kind: SourceKind::from_name(name),
            domains: Vec::new(),
            period_ns: 0,
            quality: Quality::Measured,
            ignored: vec![Ignored {
                domain: name.to_owned(),
                reason: IgnoredReason::Failed { error: error.to_string() },
            }],
            notes: Vec::new(),
        });
    }
}

/// A source of which nothing is taken.
fn without(mut source: Source, reason: &IgnoredReason) -> Source {
    source.ignored.extend(source.domains.drain(..).map(|domain| Ignored { domain, reason: reason.clone() }));
    source
}
