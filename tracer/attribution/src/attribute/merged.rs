//! A merged recording: each machine is attributed by itself, as its own recording would be, and the profiles
//! are put behind each other.
//!
//! Recordings of one machine that overlap are joined first (`recording::joining`): they read the same
//! counters. All times are set to the clock of the machine that booted first, by the wall time in each
//! header. Leaves out how one recording is attributed (`attribute.rs`).

use super::{attribute_in_bins, attribute_one, span_of};
use crate::parts::LeftOut;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::over_time::Bins;
use energy_trace_model::profile::work::{Work, merged as work_of_merged};
use energy_trace_model::profile::{Options, OverTime, PartOfProfile, Profile};
use energy_trace_model::recording::joining::joined;
use energy_trace_model::recording::machines::overlap;
use energy_trace_model::recording::record::WorkSource;
use energy_trace_model::recording::{Part, Recording};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// The recording of one machine.
struct Machine {
    /// What tells it from the others.
    label: String,
    recording: Recording,
    parts: Vec<PartOfProfile>,
}

pub(crate) fn attribute(recording: &Recording, options: &Options) -> Profile {
    if recording.parts.iter().any(|part| !part.recording.work.is_empty()) {
        return attribute_over_time(recording, options).0;
    }
    let machines = machines(&recording.parts);
    let several = machines.len() > 1;
    let mut whole = Profile { options: *options, ..Profile::default() };
    for (number, machine) in machines.iter().enumerate() {
        let profile = machine
            .named(attribute_one(Cow::Borrowed(&machine.recording), options, LeftOut::NOTHING), several);
        if number == 0 { whole = profile } else { whole.add(profile) }
    }
    ended(whole, recording)
}

pub(crate) fn attribute_over_time(recording: &Recording, options: &Options) -> (Profile, OverTime) {
    let machines = machines(&recording.parts);
    let several = machines.len() > 1;
    let spans = machines.iter().map(|machine| span_of(&machine.recording));
    let span = spans
        .reduce(|one, other| crate::timeline::Span::new(one.start.min(other.start), one.end.max(other.end)));
    let bins = span.map_or_else(Bins::default, |span| Bins::over(span.start, span.end));
    let (mut whole, mut over) = (Profile { options: *options, ..Profile::default() }, OverTime::default());
    let mut work = Vec::new();
    for (number, machine) in machines.iter().enumerate() {
        let (mut profile, times) = attribute_in_bins(Cow::Borrowed(&machine.recording), options, bins);
        work.push(machine.work(std::mem::take(&mut profile.work)));
        let profile = machine.named(profile, several);
        if number == 0 {
            (whole, over) = (profile, times);
        } else {
            whole.add(profile);
            over.add(times);
        }
    }
    add_work(&mut whole, recording, &work);
    (ended(whole, recording), over)
}

/// Units of work that every recording counts for itself are added: the program's energy is that of all. Of
/// others it is said that they are not.
fn add_work(whole: &mut Profile, recording: &Recording, of_machines: &[Vec<Work>]) {
    let mut names = BTreeSet::new();
    let all = recording.parts.iter().flat_map(|part| &part.recording.work);
    for name in all.map(|series| &series.counter.name).filter(|name| names.insert(*name)) {
        match together(name, of_machines) {
            Some(work) => whole.work.push(work),
            None => whole.diagnostics.push(work_of_merged(name.clone())),
        }
    }
}

/// The work of a name, if all machines have it, and calls of one function if any has calls.
fn together(name: &str, of_machines: &[Vec<Work>]) -> Option<Work> {
    let named = |work: &&Work| work.series.counter.name == name;
    let all: Vec<&Work> = of_machines.iter().map(|work| work.iter().find(named)).collect::<Option<_>>()?;
    let mut sources = all.iter().map(|work| &work.series.counter.source);
    let first = sources.next()?;
    let is_read = |source: &WorkSource| !matches!(source, WorkSource::Calls(_));
    let is_one = sources.all(|source| source == first || is_read(source) && is_read(first));
    is_one.then(|| Work::together(&all))?
}

/// What was found about the file as a whole stands first.
fn ended(mut whole: Profile, recording: &Recording) -> Profile {
    let found = recording.diagnostics.iter().cloned().map(Diagnostic::Recorded);
    whole.diagnostics.splice(0..0, found);
    whole
}

impl Machine {
    /// Its units of work. Several recordings of one machine at one time may count the same ones, and nobody
    /// knows.
    fn work(&self, found: Vec<Work>) -> Vec<Work> {
        if self.parts.len() == 1 { found } else { Vec::new() }
    }

    /// A profile with the machine's name on its domains, where there are several, and its parts.
    fn named(&self, mut profile: Profile, several: bool) -> Profile {
        if several {
            profile.name_domains(&self.label);
        }
        profile.parts.clone_from(&self.parts);
        profile
    }
}

/// The machines of all parts, on one clock.
fn machines(parts: &[Part]) -> Vec<Machine> {
    let mut machines: Vec<Machine> = groups(parts).iter().map(|group| machine(group)).collect();
    let zero = |machine: &Machine| {
        let anchor = machine.recording.header.anchor;
        anchor.unix_ns.saturating_sub(anchor.ktime.as_ns())
    };
    let first = machines.iter().map(zero).min().unwrap_or_default();
    for machine in &mut machines {
        let later = Duration::from_nanos(zero(machine) - first);
        machine.recording = std::mem::take(&mut machine.recording).later_by(later);
    }
    machines
}

/// Parts that overlap on one machine, also by way of others.
fn groups(parts: &[Part]) -> Vec<Vec<&Part>> {
    let mut groups: Vec<Vec<&Part>> = Vec::new();
    for part in parts {
        let is_beside =
            |group: &Vec<&Part>| group.iter().any(|other| overlap(&part.recording, &other.recording));
        let (beside, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_beside);
        groups = others;
        groups.push(beside.into_iter().flatten().chain(std::iter::once(part)).collect());
    }
    groups
}

fn machine(group: &[&Part]) -> Machine {
    let names: BTreeSet<&str> =
        group.iter().filter_map(|part| Some(part.recording.host.as_ref()?.name.as_str())).collect();
    let labels: Vec<&str> = group.iter().map(|part| part.label.as_str()).collect();
    let ranks: Vec<Option<u32>> = group.iter().map(|part| part.recording.rank).collect();
    let label = match (labels.as_slice(), names.first()) {
        ([label], _) => (*label).to_owned(),
        (_, Some(name)) if !name.is_empty() => (*name).to_owned(),
        _ => labels.join("+"),
    };
    let recordings = group.iter().map(|part| part.recording.clone()).collect();
    let (recording, ranges) = joined(recordings);
    let part = |((label, processes), rank): ((&str, _), _)| PartOfProfile {
        label: label.to_owned(),
        processes,
        rank,
    };
    Machine { parts: labels.into_iter().zip(ranges).zip(ranks).map(part).collect(), label, recording }
}
