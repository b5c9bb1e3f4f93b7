//! The numbers of a run, from its recording, with what a reader of the study wants to know of it. Leaves out what programs print.

use crate::data::Measured;
use energy_trace_attribution::attribute;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::record::{CpuOwner, Source, SourceNote};
use energy_trace_model::recording::{Recording, file};
use energy_trace_names::shown::shown;
use energy_trace_sentences as sentences;
use std::collections::BTreeSet;
use std::path::Path;

/// The numbers of a recording. What workers use is their callers', as in reports: the joules of a call are those of all that it has done.
pub(super) fn measured(path: &Path, counted: &BTreeSet<String>) -> Result<Measured, String> {
    let recording = file::read(path).map_err(|error| error.to_string())?;
    let profile = attribute(&recording, &Options::logical());
    Ok(Measured {
        other_cpu_seconds: Some(others_between(&recording, profile.run.start, profile.run.end)),
        meters: meters(&profile),
        runtimes: runtimes(&profile),
        ..Measured::of(&profile, counted)
    })
}

/// CPU seconds of other programs between two moments: a recording begins before its program, and ends after it.
fn others_between(recording: &Recording, start: KtimeNs, end: KtimeNs) -> f64 {
    let others = recording.slices.iter().filter(|slice| !matches!(slice.who, CpuOwner::Target(_)));
    let within = others.map(|slice| slice.end.min(end).ns_since(slice.start.max(start)));
    within.fold(0, u64::saturating_add) as f64 / 1e9
}

/// The sources whose energy counts, with the parameters of those that have some.
fn meters(profile: &Profile) -> Vec<String> {
    let used = profile.run.header.sources.iter().filter(|source| !source.domains.is_empty());
    let meter = |source: &Source| {
        let parameters =
            source.notes.iter().filter(|note| matches!(note, SourceNote::ModelParameters { .. }));
        let said = source.domains.iter().cloned().chain(parameters.map(sentences::source_note));
        shown(&format!("{} ({})", source.id, said.collect::<Vec<_>>().join(", "))).into_owned()
    };
    used.map(meter).collect()
}

/// The interpreters of the recording's processes, each once.
fn runtimes(profile: &Profile) -> Vec<String> {
    let runtimes = profile.processes.iter().filter_map(|process| process.runtime.as_ref());
    let named: BTreeSet<String> = runtimes.map(|of| shown(&sentences::runtime(of)).into_owned()).fill_set();
    named.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{CpuOwner, KtimeNs, Recording, others_between};
    use energy_trace_model::ids::{CpuId, ThreadKey};
    use energy_trace_model::recording::record::Slice;

    /// Only what others had of a CPU while the program ran counts, not what was before it or behind.
    #[test]
    fn others_while_it_ran() {
        let at = |seconds: u64| KtimeNs::from_ns(seconds * 1_000_000_000);
        let slice = |who, start, end| Slice { cpu: CpuId::new(0), who, start: at(start), end: at(end) };
        let target = CpuOwner::Target(ThreadKey::new(0));
        let slices =
            [(CpuOwner::Other, 0, 3), (target, 3, 4), (CpuOwner::Other, 4, 9), (CpuOwner::Other, 20, 30)];
        let slices = slices.map(|(who, start, end)| slice(who, start, end)).into();
        let recording = Recording { slices, ..Recording::default() };
        assert!((others_between(&recording, at(2), at(6)) - 3.0).abs() < 1e-9);
    }
}
