//! What a kind of power source is to the rest of the program: its word on the command line, its help, and how it is looked for.
//!
//! Leaves out the kinds themselves (`sources/`) and reading (`source`).

use super::error::PowerError;
use super::meter_log::Replay;
use super::plan::PowerPlan;
use super::source::PowerSource;
use energy_trace_model::recording::record::{
    Domain, DomainClass, IgnoredReason, Origin, PowerDiagnostic, Quality, Source,
};
use std::path::Path;

/// One kind of power source, as it stands in the table `SOURCES`.
pub struct SourceKind {
    /// The word after `--power`, and the source's name in recordings and reports.
    pub word: &'static str,
    /// Whether the word is followed by a file: `replay:FILE`.
    pub takes_file: bool,
    /// One line for `--help`.
    pub help: &'static str,
    /// What people call it, for `doctor`.
    pub title: &'static str,
    /// What its numbers are worth at best.
    pub quality: Quality,
    /// Why `auto` does not take it here; `None`: it does.
    pub(super) why_not_auto: fn(&Request) -> Option<IgnoredReason>,
    /// Looks for it. That nothing is there is no error: the reason is in `source.ignored`.
    pub(super) discover: fn(&Request) -> Result<Discovered, PowerError>,
}

/// What a source is looked for with.
pub(super) struct Request<'a> {
    /// The request.
    pub(super) plan: &'a PowerPlan,
    /// The file after the word, for kinds that take one.
    pub(super) file: Option<&'a Path>,
    /// Whether the user named the source, so that its absence is an error.
    pub(super) named: bool,
    /// The domains that the sources before it have.
    pub(super) taken: &'a [Domain],
}

/// What was found of a source.
pub(super) struct Discovered {
    /// The source for the reader of a report: its domains, and what is ignored and why.
    pub(super) source: Source,
    /// What gives its energy; `None` when nothing can be read.
    pub(super) meter: Option<Meter>,
    /// A second reader of counters that an earlier source has, to compare the two.
    pub(super) second_reader: Option<Box<dyn PowerSource>>,
    /// What to know before believing the numbers.
    pub(super) diagnostics: Vec<PowerDiagnostic>,
}

/// Where a source's energy comes from.
pub(super) enum Meter {
    /// Counters that are read while the run lasts.
    Counters(Box<dyn PowerSource>),
    /// A log of another meter.
    Log(Replay),
    /// CPU time, multiplied by watts when the run is over.
    Model(Vec<Domain>),
}

impl Request<'_> {
    /// The number of the next GPU: sources count on where others ended.
    pub(super) fn next_gpu(&self) -> u32 {
        let gpus = self.taken.iter().filter(|d| d.class == DomainClass::Gpu).count();
        u32::try_from(gpus).unwrap_or(u32::MAX)
    }

    /// Whether a meter of the whole machine is all that there is: it is better than an estimate of a part.
    pub(super) fn has_only_outer_line(&self) -> bool {
        let is_outer = |domain: &Domain| match &domain.origin {
            Origin::Counter { source, .. } => domain.class == DomainClass::Psys && source.is_outer_line(),
            Origin::Model { .. } => false,
        };
        !self.taken.is_empty() && self.taken.iter().all(is_outer)
    }

    /// Whether an earlier source has energy of this class.
    pub(super) fn has(&self, class: DomainClass) -> bool {
        self.taken.iter().any(|domain| domain.class == class)
    }
}

impl Discovered {
    /// Counters, or none, of a source.
    pub(super) fn counters(source: Source, counters: Option<impl PowerSource + 'static>) -> Self {
        let meter = counters.map(|counters| Meter::Counters(Box::new(counters)));
        Self { source, meter, second_reader: None, diagnostics: Vec::new() }
    }
}

/// For kinds that `auto` always takes.
pub(super) const fn always(_: &Request) -> Option<IgnoredReason> {
    None
}

/// For kinds of GPUs.
pub(super) fn unless_gpus_are_off(request: &Request) -> Option<IgnoredReason> {
    (!request.plan.gpu).then_some(IgnoredReason::GpusOff)
}
