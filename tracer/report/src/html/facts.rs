//! The page's words: what was recorded, on what, how sure it is, and what is doubtful. All of them are the sentences of the other reports.

use crate::diagnostics::{changes_numbers, diagnostics, estimate_note, lost_total};
use crate::meters::basis;
use crate::run;
use crate::table_details::runtimes;
use crate::work;
use energy_trace_model::profile::Profile;
use energy_trace_names::shown::shown;
use energy_trace_sentences as sentences;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

#[derive(Serialize)]
pub(super) struct Facts {
    command: String,
    start: String,
    kernel: String,
    cpu: String,
    cpus: usize,
    python: Vec<String>,
    version: String,
    samples: u64,
    hz: u32,
    lost: u64,
    /// `from energy counters`, `estimated`, …; none without energy.
    quality: Option<&'static str>,
    /// Whether all joules are CPU time times a constant.
    modelled: bool,
    view: &'static str,
    idle: &'static str,
    attribution: &'static str,
    sources: Vec<String>,
    verdicts: BTreeMap<String, u64>,
    estimate: Option<String>,
    intervals: Option<&'static str>,
    /// Joules per unit of work, over the whole run.
    work: Vec<String>,
    /// What changes numbers, and what does not.
    warnings: Vec<String>,
    remarks: Vec<String>,
}

impl Facts {
    pub(super) fn of(profile: &Profile) -> Self {
        let header = &profile.run.header;
        let choice = run::headline(profile);
        let unix = UNIX_EPOCH + Duration::from_nanos(header.anchor.unix_ns_of(profile.run.start));
        let (changing, others): (Vec<_>, Vec<_>) =
            diagnostics(profile).into_iter().partition(|found| changes_numbers(found, profile));
        let text = |text: String| shown(&text).into_owned();
        let sentence = |found| text(sentences::diagnostic(found));
        let source = |source: &energy_trace_model::recording::record::Source| {
            text(format!(
                "{} ({}): {}",
                source.id,
                run::quality_word(source.quality),
                source.domains.join(", ")
            ))
        };
        let used = header.sources.iter().filter(|source| !source.domains.is_empty());
        Self {
            command: text(run::what_was_recorded(profile)),
            start: humantime::format_rfc3339_seconds(unix).to_string(),
            kernel: text(header.kernel.clone()),
            cpu: text(header.cpu_model.clone()),
            cpus: header.sockets.len(),
            python: runtimes(profile).into_iter().map(text).collect(),
            version: text(header.version.clone()),
            samples: profile.run.samples,
            hz: header.sample_hz,
            lost: lost_total(profile),
            quality: run::split_quality(profile, choice).map(|quality| basis(profile, choice, quality)),
            modelled: run::is_modelled(profile, choice),
            view: profile.options.view.name(),
            idle: profile.options.accounting.idle.name(),
            attribution: profile.options.accounting.method.name(),
            sources: used.map(source).collect(),
            verdicts: run::verdicts(profile),
            estimate: estimate_note(profile).map(text),
            intervals: (!run::is_modelled(profile, choice)).then_some(sentences::INTERVALS),
            work: work::sentences(profile),
            warnings: changing.iter().map(sentence).collect(),
            remarks: others.iter().map(sentence).collect(),
        }
    }
}
