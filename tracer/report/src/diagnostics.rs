//! What the reader should know before believing a number, gathered: the recording's, the attribution's, and those about the whole.
//!
//! Leaves out the sentences (`sentences`) and how sure each single number is (`sampling_error.rs`, flags).

use super::calls::calls_not_named;
use super::counts::with_functions;
use super::functions::{Function, functions};
use super::jit_code::jit_not_named;
use super::rows::process_of;
use super::thermal::slowdowns;
use super::uncertainty::{UNIDENTIFIED, of_program};
use super::{DomainChoice, run, work};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{ProcessKey, StackId};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, Imbalance};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::ranges::RangeDiagnostic;
use energy_trace_model::recording::record::{
    AccountDiagnostic, CallDiagnostic, CutReason, DomainClass, FrameKind, HiddenFile, LaunchDiagnostic,
    LossReason, OwnerDiagnostic, Process, PythonLoss, Quality, RecordingDiagnostic, Runtime, StackStatus,
};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::is_nameless;
use energy_trace_sentences::source_note;
use std::collections::{BTreeMap, BTreeSet};

/// All diagnostics: the recording's, the attribution's, then those about the whole. The same is said once.
pub(crate) fn diagnostics(profile: &Profile) -> Vec<Diagnostic> {
    let recorded = profile.run.summary.iter().flat_map(|summary| summary.diagnostics.iter().cloned());
    let mut all: Vec<Diagnostic> = Vec::new();
    let whole = [
        cut_off(profile),
        lost(profile),
        no_energy(profile),
        unsampled(profile),
        no_python(profile),
        not_whole(profile),
        jit_not_named(profile),
        program_uncertain(profile),
        few_samples(profile),
        calls_not_named(profile),
        graphs_not_known(profile),
        residual(profile),
        imbalance(profile),
    ];
    let slowed = slowdowns(profile);
    let recorded = recorded.map(|found| Diagnostic::Recorded(with_functions(found, profile)));
    let found = recorded.chain(profile.diagnostics.iter().cloned());
    let of_work = work::diagnostics(profile);
    for diagnostic in found.chain(whole.into_iter().flatten()).chain(of_work).chain(slowed) {
        let cut_twice = is_cut(&diagnostic) && all.iter().any(is_cut);
        let is_harmless = matches!(diagnostic, Diagnostic::ShortLoop { .. }) && !is_mostly_unknown(profile);
        if !cut_twice && !is_harmless && !all.contains(&diagnostic) {
            all.push(diagnostic);
        }
    }
    work::of_few(all)
}

/// Whether ranges were asked for, and it was found why there are none.
pub(crate) fn misses_ranges(profile: &Profile) -> bool {
    let is_reason = |found: &RecordingDiagnostic| {
        matches!(found, RecordingDiagnostic::Ranges(RangeDiagnostic::NotRecorded(_)))
    };
    profile.run.summary.iter().flat_map(|summary| &summary.diagnostics).any(is_reason)
}

/// Whether a number of a report is wrong, missing, or less sure, for what was found, or rows are missing as functions have no names. The rest is
/// about costs, or how a number came about. The summary hides none of these.
pub(crate) fn changes_numbers(found: &Diagnostic, profile: &Profile) -> bool {
    match found {
        Diagnostic::Recorded(found) => recorded_changes_numbers(found, profile),
        Diagnostic::Domain { what, .. } => match what {
            DomainDiagnostic::GpuSplit(split) => split.learned.is_none() || !split.alone,
            DomainDiagnostic::LessBesideOthers { .. }
            | DomainDiagnostic::MeterLag { .. }
            | DomainDiagnostic::NotCounted => false,
            DomainDiagnostic::NoReading { .. }
            | DomainDiagnostic::ReadingsLeftOut { .. }
            | DomainDiagnostic::NoIdleBaseline
            | DomainDiagnostic::SameCounter { .. }
            | DomainDiagnostic::BusyBeforeStart { .. }
            | DomainDiagnostic::GpuInUse { .. }
            | DomainDiagnostic::GpuUnattributed
            | DomainDiagnostic::GpuNotToldApart { .. }
            | DomainDiagnostic::ModelCpuTime { .. }
            | DomainDiagnostic::LackOfFit { .. }
            | DomainDiagnostic::IdleAboveCounter { .. } => true,
        },
        // Numbers are those of the machine as it was.
        Diagnostic::CallsNotNamed { .. } | Diagnostic::SlowedDown { .. } => false,
        // The joules are right, but rows of functions are missing, or what they call is.
        Diagnostic::NoPythonFrames { .. }
        | Diagnostic::StacksNotWhole { .. }
        | Diagnostic::GraphsNotKnown(_)
        | Diagnostic::JitNotNamed { .. } => true,
        Diagnostic::PartOfRun(_) => true,
        Diagnostic::EventsLost(lost) => lost_changes_numbers(lost, profile.run.samples),
        // What the timing of kernels takes is in the program's own joules.
        Diagnostic::KernelCost(_)
        | Diagnostic::OverlappingSlices { .. }
        | Diagnostic::CpuWithoutSocket { .. }
        | Diagnostic::KernelsMissing(_)
        | Diagnostic::LaunchStacksThinned(_)
        | Diagnostic::NoEnergySource
        | Diagnostic::UnsampledTime { .. }
        | Diagnostic::ProgramUncertain { .. }
        | Diagnostic::ShortLoop { .. }
        | Diagnostic::FewSamples { .. }
        | Diagnostic::ResidualLarge(_)
        | Diagnostic::Work { .. }
        | Diagnostic::LedgerImbalance(_) => true,
    }
}

fn recorded_changes_numbers(found: &RecordingDiagnostic, profile: &Profile) -> bool {
    match found {
        RecordingDiagnostic::Calls(
            found @ (CallDiagnostic::Cost { .. } | CallDiagnostic::PythonCost { .. }),
        ) => is_costly(found, profile),
        RecordingDiagnostic::Account(AccountDiagnostic::Hidden { files }) => {
            files.contains(&HiddenFile::KernelSymbols) && kernel_lacks_names(profile)
        }
        RecordingDiagnostic::NoMmapEvents { .. }
        | RecordingDiagnostic::SampleEventRefused { .. }
        | RecordingDiagnostic::UnwindTablesFull { .. }
        | RecordingDiagnostic::CommandLinesCut { .. }
        | RecordingDiagnostic::Owners(OwnerDiagnostic::NamesCut { .. })
        | RecordingDiagnostic::PushTimes { .. }
        | RecordingDiagnostic::Calls(CallDiagnostic::InputSizes { .. })
        | RecordingDiagnostic::Account(AccountDiagnostic::RecorderStarved { .. })
        | RecordingDiagnostic::Launches(LaunchDiagnostic::InjectionChained { .. }) => false,
        RecordingDiagnostic::RecordingCut { .. }
        | RecordingDiagnostic::SampleRateLimited { .. }
        | RecordingDiagnostic::SamplesNotJittered { .. }
        | RecordingDiagnostic::TimeSummed
        | RecordingDiagnostic::MachinePaused { .. }
        | RecordingDiagnostic::SamplesMissing { .. }
        | RecordingDiagnostic::MappingsFull { .. }
        | RecordingDiagnostic::PythonNamesLimited { .. }
        | RecordingDiagnostic::NamesNotLookedUp { .. }
        | RecordingDiagnostic::FilesNotRead { .. }
        | RecordingDiagnostic::ProcessesNotAnswering { .. }
        | RecordingDiagnostic::ReaderDied
        | RecordingDiagnostic::Owners(
            OwnerDiagnostic::FilesNotKept { .. }
            | OwnerDiagnostic::FilesRefused { .. }
            | OwnerDiagnostic::ReaderLost { .. }
            | OwnerDiagnostic::EventsRefused { .. }
            | OwnerDiagnostic::StacksCut { .. },
        )
        | RecordingDiagnostic::Launches(_)
        | RecordingDiagnostic::Calls(_)
        | RecordingDiagnostic::Ranges(_)
        | RecordingDiagnostic::Account(_)
        | RecordingDiagnostic::Power(_) => true,
    }
}

/// Whether kernel functions without names have more than a twentieth of the time.
fn kernel_lacks_names(profile: &Profile) -> bool {
    let is_unnamed = |stack: StackId| {
        let frame = profile.stacks.get(stack.index()).and_then(|node| profile.frames.get(node.frame.index()));
        frame.is_some_and(|frame| frame.kind == FrameKind::Kernel && is_nameless(frame))
    };
    let sum = |sum: u64, row: &ProfileRow| sum.saturating_add(row.time_ns);
    let all_ns = profile.rows.iter().fold(0, sum);
    let unnamed_ns = profile.rows.iter().filter(|row| row.stack.is_some_and(is_unnamed)).fold(0, sum);
    unnamed_ns > all_ns / 20
}

/// What counting takes is in the program's joules, and is said from a fiftieth of its CPU time on.
fn is_costly(found: &CallDiagnostic, profile: &Profile) -> bool {
    let all_ns = profile.rows.iter().map(|row| row.time_ns).fold(0, u64::saturating_add);
    found.cost_ns() > 0 && found.cost_ns().saturating_mul(50) >= all_ns
}

/// Lost names change no joule, and of what says who ran a hundredth of the samples may be lost: their time is known all the same.
fn lost_changes_numbers(lost: &BTreeMap<LossReason, u64>, samples: u64) -> bool {
    let names = |reason: &LossReason| matches!(reason, LossReason::PythonNames | LossReason::CodeObjects);
    let of_numbers = lost.iter().filter(|(reason, _)| !names(reason)).map(|(_, count)| *count);
    of_numbers.fold(0, u64::saturating_add).saturating_mul(100) > samples
}

/// Whether a recording ends early. Reading says it with the place of the cut; then it is not said again.
const fn is_cut(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic, Diagnostic::Recorded(RecordingDiagnostic::RecordingCut { .. }))
}

/// All that was lost, whatever the reason.
pub(crate) fn lost_total(profile: &Profile) -> u64 {
    let lost = profile.run.summary.iter().flat_map(|summary| summary.lost.values());
    lost.fold(0, |sum, count| sum.saturating_add(*count))
}

fn cut_off(profile: &Profile) -> Option<Diagnostic> {
    let cut =
        RecordingDiagnostic::RecordingCut { whole_bytes: None, whole_ns: None, reason: CutReason::NoEnd };
    profile.run.summary.is_none().then_some(Diagnostic::Recorded(cut))
}

fn lost(profile: &Profile) -> Option<Diagnostic> {
    let lost = profile.run.summary.iter().flat_map(|summary| summary.lost.clone());
    let lost: BTreeMap<LossReason, u64> = lost.filter(|(_, count)| *count > 0).fill_map();
    (!lost.is_empty()).then_some(Diagnostic::EventsLost(lost))
}

fn no_energy(profile: &Profile) -> Option<Diagnostic> {
    profile.ledger.is_empty().then_some(Diagnostic::NoEnergySource)
}

/// Whether a stack's innermost frame is this mark.
fn ends_in(profile: &Profile, stack: StackId, mark: SyntheticFrame) -> bool {
    let innermost = profile.stacks.get(stack.index()).map(|node| node.frame.index());
    innermost.and_then(|frame| profile.frames.get(frame)).is_some_and(|frame| mark.is(frame))
}

/// Graphs whose making was not seen, as their program ran before it was attached to.
fn graphs_not_known(profile: &Profile) -> Option<Diagnostic> {
    let is_graph =
        |row: &&ProfileRow| row.stack.is_some_and(|stack| ends_in(profile, stack, SyntheticFrame::GpuGraph));
    let energy: MicroJoules =
        profile.rows.iter().filter(is_graph).map(|row| row.energy[DomainClass::Gpu]).sum();
    let attached = profile.run.header.command.is_empty();
    (attached && energy > MicroJoules::ZERO).then_some(Diagnostic::GraphsNotKnown(energy))
}

/// Time that no sample saw, where it is more than a twentieth.
fn unsampled(profile: &Profile) -> Option<Diagnostic> {
    // In the logical view it may stand below its callers.
    let is_unsampled = |stack| ends_in(profile, stack, SyntheticFrame::Unsampled);
    let time = |rows: &mut dyn Iterator<Item = u64>| rows.fold(0, u64::saturating_add);
    let of_ns = time(&mut profile.rows.iter().map(|row| row.time_ns));
    let unsampled = profile.rows.iter().filter(|row| row.stack.is_none_or(is_unsampled));
    let unsampled_ns = time(&mut unsampled.map(|row| row.time_ns));
    (unsampled_ns > of_ns / 20).then_some(Diagnostic::UnsampledTime { unsampled_ns, of_ns })
}

/// Time of processes whose Python cannot be read, where it is more than a twentieth.
fn no_python(profile: &Profile) -> Option<Diagnostic> {
    let unread = |process: &Process| {
        let runtime = process.runtime.clone()?;
        matches!(runtime, Runtime::Refused { .. } | Runtime::NotCPython(_)).then_some((process.key, runtime))
    };
    let unread: BTreeMap<ProcessKey, Runtime> = profile.processes.iter().filter_map(unread).fill_map();
    let (mut seen, mut native_ns, mut of_ns) = (BTreeSet::new(), 0_u64, 0_u64);
    for row in &profile.rows {
        of_ns = of_ns.saturating_add(row.time_ns);
        if let Some(runtime) = process_of(profile, row).and_then(|key| unread.get(&key)) {
            native_ns = native_ns.saturating_add(row.time_ns);
            seen.insert(runtime);
        }
    }
    let runtimes = seen.into_iter().cloned().collect();
    (native_ns > of_ns / 20).then_some(Diagnostic::NoPythonFrames { runtimes, native_ns, of_ns })
}

/// Samples without all of their callers, where they are more than a fifth. Pythons that cannot be read are said by
/// themselves.
fn not_whole(profile: &Profile) -> Option<Diagnostic> {
    let all = &profile.run.stack_statuses;
    let lacks = |status: StackStatus| match status {
        StackStatus::Complete | StackStatus::Recovered(_) | StackStatus::Guessed(_) => false,
        StackStatus::Truncated(_) => true,
        StackStatus::PythonLost(why) => why != PythonLoss::UnknownVersion,
    };
    let lacking = || all.iter().filter(|(status, _)| lacks(**status));
    let sum = |counts: &mut dyn Iterator<Item = &u64>| counts.fold(0_u64, |sum, n| sum.saturating_add(*n));
    let (samples, of) = (sum(&mut lacking().map(|(_, n)| n)), sum(&mut all.values()));
    let (most, _) = lacking().max_by_key(|(_, samples)| **samples)?;
    (samples > of / 5).then_some(Diagnostic::StacksNotWhole { samples, of, most: *most })
}

/// Where the program's own energy is not known to within what a function's would be flagged for.
fn program_uncertain(profile: &Profile) -> Option<Diagnostic> {
    let (least, most) = of_program(profile)?.bounds?;
    Some(Diagnostic::ProgramUncertain { least, most })
}

/// Whether functions that the run does not show have half of the energy.
fn is_mostly_unknown(profile: &Profile) -> bool {
    let choice = run::headline(profile);
    let energy = |function: &Function| run::chosen(&function.row.spent.own.energy, choice);
    let functions = functions(profile);
    let unknown = functions.iter().filter(|function| function.row.flags.contains(&UNIDENTIFIED)).map(energy);
    let [unknown, all] = [unknown.sum(), functions.iter().map(energy).sum::<MicroJoules>()];
    !run::is_modelled(profile, choice) && unknown + unknown > all
}

fn few_samples(profile: &Profile) -> Option<Diagnostic> {
    let samples = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.samples));
    let cpu_ns = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.time_ns));
    // Of a recording that is cut, or lacks events, it is not known that there was none.
    let is_known = || profile.run.summary.as_ref().is_some_and(|summary| summary.lost.is_empty());
    (samples < 100 && (cpu_ns > 0 || is_known())).then_some(Diagnostic::FewSamples { samples, cpu_ns })
}

/// Energy of windows in which nobody ran, where it is more than 1/200 of a domain: the bound that the design sets for a fitting idle
/// baseline.
fn residual(profile: &Profile) -> Option<Diagnostic> {
    let large = |residual: MicroJoules, measured: MicroJoules| {
        residual.as_uj().unsigned_abs().saturating_mul(200) > measured.as_uj().unsigned_abs()
    };
    // Of a part of a run it holds what could not be placed any better.
    let rows =
        profile.ledger.iter().filter(|row| profile.part.is_none() && large(row.residual, row.measured));
    let domains: Vec<_> = rows.map(|row| (row.domain.clone(), row.residual)).collect();
    (!domains.is_empty()).then_some(Diagnostic::ResidualLarge(domains))
}

fn imbalance(profile: &Profile) -> Option<Diagnostic> {
    let broken = profile.ledger.iter().filter(|row| row.imbalance() != MicroJoules::ZERO);
    let mut sums: Vec<(Imbalance, MicroJoules)> =
        broken.map(|row| (Imbalance::Domain(row.domain.clone()), row.imbalance())).collect();
    for class in DomainClass::ALL {
        let target = run::target(profile, DomainChoice::Class(class));
        let rows: MicroJoules = profile.rows.iter().map(|row| row.energy[class]).sum();
        if rows != target {
            sums.push((Imbalance::Stacks(class.name()), target - rows));
        }
    }
    (!sums.is_empty()).then_some(Diagnostic::LedgerImbalance(sums))
}

/// Whether any number of the run is estimated, and the sentence that says so.
pub(crate) fn estimate_note(profile: &Profile) -> Option<String> {
    let estimated: Vec<&str> = (profile.ledger.iter())
        .filter(|row| row.quality == Quality::Estimated)
        .map(|row| row.domain.as_str())
        .collect();
    if estimated.is_empty() {
        return None;
    }
    let sources = profile.run.header.sources.iter().filter(|source| source.quality == Quality::Estimated);
    let notes: Vec<String> = sources.flat_map(|source| source.notes.iter().map(source_note)).collect();
    let notes = if notes.is_empty() { "estimated".to_owned() } else { notes.join("; ") };
    Some(format!("no energy counter for {}: {notes}", estimated.join(", ")))
}
