//! Warnings in one line, for the summary. What is done about them stands in the whole sentence, which `report` shows.
//!
//! Leaves out those that are seldom: of these the sentence's first part is shown.

use super::attribution::{diagnostic, percent_of};
use super::in_seconds;
use super::jit::jit_in_brief;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::recording::record::{Quality, RecordingDiagnostic, SourceNote};

const MODEL_DEFAULTS: &str = "may be off by 2x: no energy counter, joules are CPU time times a constant";

/// What was found, in a line.
pub(crate) fn brief(found: &Diagnostic) -> String {
    match found {
        Diagnostic::Domain { domain, what } => match domain_in_brief(what) {
            Some(words) => format!("{domain}: {words}"),
            None => first_part(&diagnostic(found)),
        },
        Diagnostic::FewSamples { samples } => {
            format!("only {samples} samples, so shares are rough: record longer, or with -F 999")
        }
        Diagnostic::UnsampledTime { unsampled_ns, of_ns } => {
            format!("{} of the CPU time has no sample ([unsampled])", percent_of(*unsampled_ns, *of_ns))
        }
        Diagnostic::NoPythonFrames { native_ns, of_ns, .. } => {
            format!(
                "no Python functions in {} of the CPU time: the Python cannot be read",
                percent_of(*native_ns, *of_ns)
            )
        }
        Diagnostic::JitNotNamed { programs, of_ns } => jit_in_brief(programs, *of_ns),
        Diagnostic::ProgramUncertain { least, most } => {
            format!("the program's own energy is known only as {least} to {most}: the machine was busy")
        }
        Diagnostic::EventsLost(lost) => {
            let all = lost.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
            format!("{all} events were lost while recording")
        }
        Diagnostic::PartOfRun(part) => {
            let [from, to, of] = [part.from_ns, part.to_ns, part.of_ns].map(in_seconds);
            format!("only {from} s to {to} s of {of:.2} s: 95 % intervals are not known for a part of a run")
        }
        Diagnostic::ResidualLarge(_) => {
            "the idle power does not fit: measure it on a quiet machine, or give --idle-watts".to_owned()
        }
        Diagnostic::Recorded(RecordingDiagnostic::MachinePaused { times, cpu_ns }) => {
            format!("the machine stood still {times} times, {:.2} s of CPU time in all", in_seconds(*cpu_ns))
        }
        Diagnostic::Recorded(RecordingDiagnostic::MappingsFull { processes, .. }) => {
            format!("{processes} processes have more code mappings than fit: some stacks may be cut")
        }
        Diagnostic::Recorded(RecordingDiagnostic::SamplesMissing { taken, expected, .. }) => {
            format!("{taken} of {expected} samples came, so shares are rougher")
        }
        Diagnostic::Recorded(RecordingDiagnostic::SampleRateLimited { hz, wanted_hz, .. }) => {
            format!("the kernel allowed {hz} samples per second instead of {wanted_hz}")
        }
        other => first_part(&diagnostic(other)),
    }
}

fn domain_in_brief(what: &DomainDiagnostic) -> Option<&'static str> {
    Some(match what {
        DomainDiagnostic::ModelCpuTime { .. } => {
            "the power of functions is not shown by this run: split by CPU time"
        }
        DomainDiagnostic::LackOfFit { .. } => {
            "functions drew more at some times than at others: wider intervals"
        }
        DomainDiagnostic::NoIdleBaseline => {
            "idle power is not known and charged to whoever ran: --idle-watts"
        }
        DomainDiagnostic::GpuInUse { recorded: true, .. } => {
            "the GPU was in use before the start: its idle power is not known"
        }
        DomainDiagnostic::GpuInUse { recorded: false, .. } => {
            "others used the GPU before the start: that counts as idle power"
        }
        DomainDiagnostic::IdleAboveCounter { .. } => {
            "the idle power was above the counter in part of the run"
        }
        DomainDiagnostic::GpuUnattributed => {
            "energy above idle is not charged to functions: no launches recorded"
        }
        DomainDiagnostic::SamplesInStep => "samples came in step with the program: record with another -F",
        _ => return None,
    })
}

/// The first part of a sentence says what happened; what it changes and what to do about it come behind a semicolon.
fn first_part(sentence: &str) -> String {
    sentence.split("; ").next().unwrap_or(sentence).to_owned()
}

/// That energy was modelled, and how wrong that may be; `None` where it was counted.
pub(crate) fn model_in_brief(profile: &Profile) -> Option<String> {
    let modelled: Vec<&str> = (profile.ledger.iter())
        .filter(|row| row.quality == Quality::Estimated)
        .map(|row| row.domain.as_str())
        .collect();
    let sources = profile.run.header.sources.iter().filter(|source| source.quality == Quality::Estimated);
    let defaults = sources.flat_map(|source| &source.notes).any(|note| *note == SourceNote::ModelDefaults);
    match (modelled.is_empty(), defaults) {
        (true, _) => None,
        (false, true) => Some(MODEL_DEFAULTS.to_owned()),
        (false, false) => Some(format!(
            "no energy counter for {}: joules are CPU time times a constant",
            modelled.join(", ")
        )),
    }
}
