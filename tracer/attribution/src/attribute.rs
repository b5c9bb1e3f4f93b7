//! One recording, one profile: the order in which the rooms work.
//!
//! Leaves out what each of them does.

mod by_process;
mod carrying;
mod merged;
mod same_counter;

use crate::charging::basis::Basis;
use crate::charging::domain::charge;
use crate::delegation::{self, Delegation, Sourced};
use crate::ledger::result::DomainResult;
use crate::ledger::{diagnostics, rows, short_loops};
use crate::numerics::parallel::both;
use crate::over_time;
use crate::parts::{LeftOut, Part};
use crate::power_model::carried::CarriedPowers;
use crate::power_model::paths::PathTree;
use crate::time::background::BackgroundProcesses;
use crate::time::conditions::Conditions;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::register_launch_owners;
use crate::time::slices::SampledTime;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::options::Accounting;
use energy_trace_model::profile::over_time::Bins;
use energy_trace_model::profile::{DomainByProcess, Options, OverTime, Profile, View};
use energy_trace_model::recording::Recording;
use std::borrow::Cow;

/// Attributes the energy of a recording: the ledger of each domain, and the joules of each thread and stack.
/// In the logical view workers are charged to the Python stack that they work for (`delegation`); each
/// thread's sums are those of the physical view, to the microjoule.
///
/// Exact for every recording whose energy stays below 9.2 TJ: each row's `imbalance` is zero, Σ rows = Σ
/// ledger targets per class, and the rows' time is the target's on-CPU time within the recording's span.
/// Never panics, also on nonsense.
pub fn attribute(recording: &Recording, options: &Options) -> Profile {
    attribute_cow(Cow::Borrowed(recording), options)
}

/// The same without some parts, to see what these are worth, and without units of work. Nothing is left out of a
/// merged recording.
pub fn attribute_without(recording: &Recording, options: &Options, left_out: LeftOut) -> Profile {
    if recording.parts.is_empty() {
        attribute_one(Cow::Borrowed(recording), options, left_out)
    } else {
        attribute(recording, options)
    }
}

/// The same of a recording that is given away: its samples, which take most of its memory, go as soon as they
/// are no longer needed.
pub fn attribute_owned(recording: Recording, options: &Options) -> Profile {
    attribute_cow(Cow::Owned(recording), options)
}

fn attribute_cow(recording: Cow<'_, Recording>, options: &Options) -> Profile {
    if !recording.parts.is_empty() {
        merged::attribute(&recording, options)
    } else if recording.work.is_empty() {
        attribute_one(recording, options, LeftOut::NOTHING)
    } else {
        // What was done is known by moments, so that its energy is wanted by moments too.
        over_time_cow(recording, options).0
    }
}

/// The same, and its energy over time. Each row's bins sum to the row and each domain's to its row of the
/// ledger, to the microjoule.
pub fn attribute_over_time(recording: &Recording, options: &Options) -> (Profile, OverTime) {
    over_time_cow(Cow::Borrowed(recording), options)
}

/// The same of a recording that is given away, as `attribute_owned`.
pub fn attribute_over_time_owned(recording: Recording, options: &Options) -> (Profile, OverTime) {
    over_time_cow(Cow::Owned(recording), options)
}

fn over_time_cow(recording: Cow<'_, Recording>, options: &Options) -> (Profile, OverTime) {
    if !recording.parts.is_empty() {
        return merged::attribute_over_time(&recording, options);
    }
    let span = span_of(&recording);
    attribute_in_bins(recording, options, Bins::over(span.start, span.end))
}

/// By domain and process alone, of a recording that is not merged: no stack is made a row, and how sure it is is not
/// worked out. `carried`: what earlier windows of the machine have shown, to which this one's is added.
pub fn attribute_by_process(
    recording: Recording,
    options: &Options,
    carried: &mut CarriedPowers,
) -> Vec<DomainByProcess> {
    let mut recording = Cow::Owned(recording);
    let (_, found) = Attribution::of(&mut recording, options.accounting, LeftOut::NOTHING, Some(carried));
    by_process::of(&found.results, &found.time.owners, &recording.threads)
}

/// The same, and the whole profile beside it, for who wants to know stacks too.
pub fn attribute_with_processes(
    recording: Recording,
    options: &Options,
    carried: &mut CarriedPowers,
) -> (Vec<DomainByProcess>, Profile) {
    let mut recording = Cow::Owned(recording);
    let (run, found) = Attribution::of(&mut recording, options.accounting, LeftOut::NOTHING, Some(carried));
    let by_process = by_process::of(&found.results, &found.time.owners, &recording.threads);
    let (mut profile, rows) = with_rows(run, &recording, options, &found);
    found.enter(rows, &mut profile);
    (by_process, profile)
}

/// Of a recording that is not merged.
fn attribute_one(mut recording: Cow<'_, Recording>, options: &Options, left_out: LeftOut) -> Profile {
    let (run, found) = Attribution::of(&mut recording, options.accounting, left_out, None);
    let (mut profile, rows) = with_rows(run, &recording, options, &found);
    found.enter(rows, &mut profile);
    profile
}

/// Of a recording that is not merged, in these bins, which may begin before it and end after it.
pub(crate) fn attribute_in_bins(
    mut recording: Cow<'_, Recording>,
    options: &Options,
    bins: Bins,
) -> (Profile, OverTime) {
    let (run, found) = Attribution::of(&mut recording, options.accounting, LeftOut::NOTHING, None);
    let (mut profile, rows) = with_rows(run, &recording, options, &found);
    let over_time = over_time::Attributed {
        recording: &recording,
        bins,
        time: &found.time,
        launchers: &found.delegation.launchers,
        results: &found.results,
        rows: &rows,
    }
    .over_time();
    found.enter(rows, &mut profile);
    profile.work = over_time.work(&recording.work, &profile.ledger, profile.run.start, profile.run.end);
    (profile, over_time)
}

/// A profile that lacks what was found, and its rows.
fn with_rows(
    run: Profile,
    recording: &Recording,
    options: &Options,
    found: &Attribution,
) -> (Profile, Vec<Sourced>) {
    let owners = rows::by_owner(&found.time, &found.results);
    let mut profile = Profile { options: *options, ..run };
    let rows = match options.view {
        View::Physical => delegation::physical(&owners),
        View::Logical => {
            let logical = delegation::logical(recording, &found.delegation, &owners);
            profile.frames.extend(logical.frames);
            profile.stacks.extend(logical.stacks);
            logical.rows
        }
    };
    (profile, rows)
}

/// Who was on CPUs when, and for whom.
fn time_of(recording: &Recording, span: Span, left_out: LeftOut) -> (CpuTime, Delegation) {
    let told_apart = if left_out.has(Part::BackgroundPowers) { &[][..] } else { &recording.background };
    let background = BackgroundProcesses::of(&recording.slices, told_apart);
    let mut sampled =
        SampledTime::new(&recording.slices, &recording.samples, &background, &recording.unsampled, span);
    register_launch_owners(recording, &mut sampled);
    delegation::refine(recording, sampled, span)
}

/// What is found out before anybody asks for rows.
struct Attribution {
    time: CpuTime,
    delegation: Delegation,
    results: Vec<DomainResult>,
    diagnostics: Vec<Diagnostic>,
}

impl Attribution {
    /// And what the profile says of the run. A recording of its own is without samples then.
    fn of(
        recording: &mut Cow<'_, Recording>,
        accounting: Accounting,
        left_out: LeftOut,
        carried: Option<&mut CarriedPowers>,
    ) -> (Profile, Self) {
        let shared = same_counter::leave_out(recording);
        let span = span_of(recording);
        let (run, (time, delegation)) =
            both(|| Profile::of_run(recording), || time_of(recording, span, left_out));
        if let Cow::Owned(recording) = recording {
            recording.samples = vec![];
        }
        let recording: &Recording = recording;
        let cpus = Cpus::of(recording);
        let tree = PathTree::of(recording, &time.owners, |owner| delegation.requesters_of(owner));
        let woke = &recording.sleeps;
        let launchers = &delegation.launchers;
        let conditions = &Conditions::of(recording, &time.segments);
        let basis = Basis {
            span,
            time: &time,
            tree: &tree,
            cpus: &cpus,
            accounting,
            left_out,
            woke,
            recording,
            launchers,
            conditions,
            carried: carried.as_deref(),
        };
        let mut found: Vec<Diagnostic> =
            recording.diagnostics.iter().cloned().map(Diagnostic::Recorded).collect();
        found.extend(shared);
        let results: Vec<DomainResult> = recording
            .domains
            .iter()
            .map(|domain| {
                let readings = recording.readings.get(&domain.id).map_or(&[][..], Vec::as_slice);
                let result = charge(domain, readings, &basis);
                found.extend(diagnostics::of_domain(recording, domain, &result, span));
                result
            })
            .collect();
        if let Some(carried) = carried {
            results.iter().for_each(|result| carrying::carry(carried, result, &tree, span));
        }
        found.extend(short_loops::find(recording, &time.points, &tree));
        found.extend(diagnostics::of_kernels(&recording.gpu.tiers));
        found.extend(diagnostics::of_launch_stacks(recording.gpu.stacks));
        found.extend(diagnostics::of_recording(time.overlaps, cpus.time_without_socket(&time)));
        (run, Self { time, delegation, results, diagnostics: found })
    }

    /// Enters what was found into a profile.
    fn enter(self, rows: Vec<Sourced>, profile: &mut Profile) {
        let (rows, sources): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        profile.certainty = rows::certainty(&self.results, &sources);
        profile.ledger = self.results.into_iter().map(|result| result.row).collect();
        profile.rows = rows;
        profile.diagnostics = self.diagnostics;
    }
}

/// The recording's time. One that was cut off ends with the last thing in it.
pub(crate) fn span_of(recording: &Recording) -> Span {
    if let Some(summary) = &recording.summary {
        return Span::new(summary.start, summary.end);
    }
    let start = recording.header.anchor.ktime;
    let slices = recording.slices.iter().map(|slice| slice.end);
    let samples = recording.samples.iter().map(|sample| sample.at);
    let readings = recording.readings.values().flatten().map(|reading| reading.at);
    let last = slices.chain(samples).chain(readings).max().unwrap_or(KtimeNs::default());
    Span::new(start, last)
}

#[cfg(test)]
mod tests {
    mod by_process;
    mod delegation;
    mod gpu;
    mod merged;
    mod over_time;
    mod powers;
    mod same_counter;
    mod sleeps;
    mod small;
}
