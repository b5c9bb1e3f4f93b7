//! What `doctor` shows: every source that this version knows, what it would give and why not.
//!
//! The sources are chosen by the same code as for a run (`set.rs`), as `auto` does. Leaves out reading them: a survey never fails and keeps
//! nothing open.

use super::kind::{Discovered, SourceKind};
use super::plan::PowerPlan;
use super::set::PowerSet;
use super::sources::SOURCES;
use energy_trace_model::recording::record::{
    Domain, Ignored, IgnoredReason, PowerDiagnostic, Sensor, SensorValue, Source, SourceId,
};
use std::path::Path;
use std::time::Duration;

/// How long meters are watched: five steps of the slowest.
const WATCHED: Duration = Duration::from_millis(650);

/// What there is, and what to know of it.
#[derive(Debug)]
pub struct Survey {
    /// Every source with its domains, and what is ignored and why. The model comes last, with a remark on whether `auto` would use it.
    pub sources: Vec<Source>,
    /// What a recording would hold: each domain, the model's too.
    pub domains: Vec<Domain>,
    /// What a reader should know before believing their numbers.
    pub diagnostics: Vec<PowerDiagnostic>,
    /// Sensors of temperature and clocks, and what each says now.
    pub sensors: Vec<(Sensor, Option<SensorValue>)>,
}

/// Looks at everything; GPUs for half a second, to see how their meters step.
pub fn survey(plan: &PowerPlan) -> Survey {
    let mut set = PowerSet::empty(plan.period);
    for kind in SOURCES {
        for file in plan.files(kind.word) {
            offer(&mut set, kind, plan, Some(file));
        }
        match set.why_not_auto(kind, plan) {
            None => offer(&mut set, kind, plan, None),
            Some(_) if kind.takes_file => {}
            Some(reason) => add_declined(&mut set, kind, plan, &reason),
        }
    }
    set.find_sensors(&plan.sysfs);
    let sensors = set.read_sensors();
    let domains = set.domains().to_vec();
    let (sources, diagnostics) = set.examine(WATCHED);
    Survey { sources, domains, diagnostics, sensors }
}

/// Adds a source; one that cannot be taken says why.
fn offer(set: &mut PowerSet, kind: &SourceKind, plan: &PowerPlan, file: Option<&Path>) {
    if let Err(error) = set.take(kind, plan, file, false) {
        set.add_source(Source {
            id: SourceId::from_name(kind.word),
            domains: Vec::new(),
            period_ns: 0,
            quality: kind.quality,
            ignored: vec![Ignored {
                domain: kind.word.to_owned(),
                reason: IgnoredReason::Failed { error: error.to_string() },
            }],
            notes: Vec::new(),
        });
    }
}

/// Adds what a source has that `auto` leaves alone here; one that has nothing has no line.
fn add_declined(set: &mut PowerSet, kind: &SourceKind, plan: &PowerPlan, reason: &IgnoredReason) {
    let Ok(Discovered { source, .. }) = set.discover(kind, plan, None, false) else { return };
    let source = without(source, reason);
    if !source.ignored.is_empty() {
        set.add_source(source);
    }
}

/// A source of which nothing is taken.
fn without(mut source: Source, reason: &IgnoredReason) -> Source {
    source.ignored.extend(source.domains.drain(..).map(|domain| Ignored { domain, reason: reason.clone() }));
    source
}
