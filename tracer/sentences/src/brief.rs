//! Warnings in one line, for the summary. What is done about them stands in the whole sentence, which `report` shows.
//!
//! Leaves out those that are seldom and change no number: of these the sentence's first part is shown.

use super::account::account_in_brief;
use super::attribution::{diagnostic, domain_fact, few, is_too_short, some_of};
use super::calls::call_fact;
use super::counters::missing_in_brief;
use super::jit::jit_in_brief;
use super::launches::launch_fact;
use super::owners::owner_in_brief;
use super::ranges::range_in_brief;
use super::sources::{no_counter, only_python};
use super::stacks::not_whole_in_brief;
use super::work::work_in_brief;
use super::{counted, in_percent, in_seconds, percent_of, power_fact, recorded, were};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, IdleInUse};
use energy_trace_model::recording::record::{
    CallDiagnostic, DomainClass, KernelFallback, LaunchDiagnostic, PowerDiagnostic, PythonNotCounted,
    Quality, RecordingDiagnostic, Source,
};

/// What was found, in lines that fit a terminal of 80 columns: what is the same of several domains or processes is said once.
pub fn in_brief<'a>(found: impl Iterator<Item = &'a Diagnostic>) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for found in found {
        let (domain, line) = match found {
            Diagnostic::Domain { domain, what } => (Some(domain.as_str()), domain_in_brief(what)),
            other => (None, brief(other)),
        };
        match lines
            .iter_mut()
            .find(|(domains, known)| *known == line && domains.is_empty() == domain.is_none())
        {
            Some((domains, _)) => domains.extend(domain),
            None => lines.push((domain.into_iter().collect(), line)),
        }
    }
    lines.into_iter().map(|(domains, line)| of_domains(&domains, line)).collect()
}

/// `package-0, package-1: …`.
fn of_domains(domains: &[&str], line: String) -> String {
    match domains {
        [] => line,
        [..] if domains.len() > 2 => format!("{} domains: {line}", domains.len()),
        _ => format!("{}: {line}", domains.join(", ")),
    }
}

fn few_in_brief(samples: u64, cpu_ns: u64) -> String {
    match (samples, cpu_ns) {
        (_, 0) => "no CPU time was used: the program waited, or was stopped".to_owned(),
        _ if is_too_short(cpu_ns) => format!(
            "{} in {:.1} ms of CPU time: too short, repeat the work in a loop",
            few(samples),
            in_seconds(cpu_ns) * 1e3
        ),
        (0, _) => "no samples, so no functions are known: record longer, or with -F 999".to_owned(),
        _ => format!("{}, so shares are rough: record longer, or with -F 999", few(samples)),
    }
}

/// What was found of the whole or while recording.
fn brief(found: &Diagnostic) -> String {
    match found {
        Diagnostic::Recorded(found) => recorded_in_brief(found),
        Diagnostic::Domain { what, .. } => domain_in_brief(what),
        Diagnostic::FewSamples { samples, cpu_ns } => few_in_brief(*samples, *cpu_ns),
        Diagnostic::UnsampledTime { unsampled_ns, of_ns } => {
            format!("{} of the CPU time has no sample ([unsampled])", percent_of(*unsampled_ns, *of_ns))
        }
        Diagnostic::NoPythonFrames { runtimes, native_ns, of_ns } => format!(
            "no Python functions in {} of the CPU time: {} cannot be read",
            percent_of(*native_ns, *of_ns),
            only_python(runtimes)
        ),
        Diagnostic::StacksNotWhole { samples, of, most } => not_whole_in_brief(*samples, *of, *most),
        Diagnostic::JitNotNamed { programs, of_ns } => jit_in_brief(programs, *of_ns),
        Diagnostic::ProgramUncertain { least, most } => {
            format!("the program's own energy is known only as {least} to {most}: others ran")
        }
        Diagnostic::Work { name, what } => work_in_brief(name, what),
        Diagnostic::EventsLost(lost) => {
            let all = lost.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
            format!("{} lost while recording", were(all, "event"))
        }
        Diagnostic::PartOfRun(part) => {
            let [from, to, of] = [part.from_ns, part.to_ns, part.of_ns].map(in_seconds);
            format!("only {from:.2} s to {to:.2} s of {of:.2} s: for a part, 95 % intervals are not known")
        }
        Diagnostic::ResidualLarge(_) => {
            "the idle power does not fit: use a quiet machine, or give --idle-watts".to_owned()
        }
        Diagnostic::OverlappingSlices { times } => {
            format!("a switch of threads was missed {}: times may be off", counted(*times, "time"))
        }
        Diagnostic::CpuWithoutSocket { cpu_ns } => {
            format!("{:.2} s on CPUs whose socket is not known are charged no energy", in_seconds(*cpu_ns))
        }
        Diagnostic::KernelCost(_) => {
            "the program's time and joules include the timing of GPU kernels".to_owned()
        }
        Diagnostic::KernelsMissing(_) => "some GPU kernels are missing, or have no stack".to_owned(),
        Diagnostic::LaunchStacksThinned(_) => {
            "some GPU launches are shown in another launch's stack, or in none".to_owned()
        }
        Diagnostic::LedgerImbalance(_) => {
            "the ledger does not balance: an error in energy-trace, please report it".to_owned()
        }
        other => first_part(&diagnostic(other)),
    }
}

fn recorded_in_brief(found: &RecordingDiagnostic) -> String {
    match found {
        RecordingDiagnostic::RecordingCut { whole_ns, .. } => {
            let at = whole_ns.map(|ns| format!(", {:.2} s after its start", in_seconds(ns)));
            format!("the recording ends early{}: the rest is in no number", at.unwrap_or_default())
        }
        RecordingDiagnostic::MachinePaused { times, cpu_ns } => format!(
            "the machine stood still {}, {:.2} s of CPU time in all",
            counted(*times, "time"),
            in_seconds(*cpu_ns)
        ),
        RecordingDiagnostic::MappingsFull { processes, .. } => {
            format!("no room for the code mappings of {}: stacks are cut", counted(*processes, "process"))
        }
        RecordingDiagnostic::SamplesMissing { taken, expected, .. } => {
            format!("{taken} of {expected} samples were taken: shares are rougher")
        }
        RecordingDiagnostic::SampleRateLimited { hz, wanted_hz, .. } => {
            format!("the kernel allowed {hz} samples per second instead of {wanted_hz}")
        }
        RecordingDiagnostic::SamplesNotJittered { .. } => {
            "samples were evenly spaced: a loop in step with them is seen in part".to_owned()
        }
        RecordingDiagnostic::TimeSummed => {
            "CPU time was summed by process: nothing within 0.1 s is known".to_owned()
        }
        RecordingDiagnostic::NamesNotLookedUp { files } => {
            format!("functions of {} have no names: gone before they were read", counted(*files, "file"))
        }
        RecordingDiagnostic::FilesNotRead { files, more } => {
            let all = (files.len() as u64).saturating_add(*more);
            format!("{} not read to the end: names there are missing, stacks cut", were(all, "file"))
        }
        RecordingDiagnostic::ProcessesNotAnswering { processes, more } => {
            let all = (processes.len() as u64).saturating_add(*more);
            format!("memory of {} could not be read in time: names are missing", counted(all, "process"))
        }
        RecordingDiagnostic::PythonNamesLimited { times, .. } => {
            format!("{} have no name: no memory left for names", counted(*times, "new Python function"))
        }
        RecordingDiagnostic::ReaderDied => "the reader of events died: the recording ends early".to_owned(),
        RecordingDiagnostic::Power(found) => power_in_brief(found),
        RecordingDiagnostic::Launches(found) => launches_in_brief(found),
        RecordingDiagnostic::Account(found) => account_in_brief(found),
        RecordingDiagnostic::Owners(found) => owner_in_brief(found),
        RecordingDiagnostic::Ranges(found) => range_in_brief(found),
        RecordingDiagnostic::Calls(found) => calls_in_brief(found),
        other => first_part(&recorded(other)),
    }
}

fn power_in_brief(found: &PowerDiagnostic) -> String {
    match found {
        PowerDiagnostic::GpuMig { domain } => {
            format!("{domain}: MIG is on: joules are those of all instances together")
        }
        PowerDiagnostic::GpuVirtual { domain } => {
            format!("{domain}: a virtual GPU: its joules are the host's, if anything")
        }
        PowerDiagnostic::GpuNoCounter { domain } => {
            format!("{domain}: no energy counter: joules are a sum of power readings")
        }
        PowerDiagnostic::GpuUtilization { domain } => {
            format!("{domain}: may be 0.2 to 1 times that: its busy time times its power limit")
        }
        PowerDiagnostic::GpuAveragedPower { domain } => {
            format!("{domain}: its power is a mean over a second: short work is blurred")
        }
        PowerDiagnostic::GpuCounterReset { domain, times, .. } => {
            format!("{domain}: its counter went back {}: energy is missing", counted(*times, "time"))
        }
        PowerDiagnostic::GpuSensorsDisagree { domain, permille, .. } => {
            format!("{domain}: its counter and its power differ by {:+.0} %", in_percent(*permille))
        }
        PowerDiagnostic::SourcesDisagree { domain, permille } => {
            format!("{domain}: perf and powercap differ by {:+.1} %", in_percent(*permille))
        }
        PowerDiagnostic::ReplayDoesNotCover { path } => {
            format!("the log does not cover the whole run: {path}")
        }
        other => first_part(&power_fact(other)),
    }
}

fn launches_in_brief(found: &LaunchDiagnostic) -> String {
    match found {
        LaunchDiagnostic::Streams { domain, .. } => {
            format!("{domain}: kernels ran at the same time: --gpu kernel separates them")
        }
        LaunchDiagnostic::GraphChanged { times } => {
            format!("a CUDA graph was changed {}: new work counts as the old", counted(*times, "time"))
        }
        LaunchDiagnostic::SlowProbes(_) => {
            "probes on GPU launches slow the program down: --gpu device avoids them".to_owned()
        }
        LaunchDiagnostic::ProbesLate { pid, .. } => {
            format!("the first GPU launches of process {pid} are missing: probed late")
        }
        LaunchDiagnostic::KernelFallback(KernelFallback::Process { pid, .. }) => {
            format!("GPU kernels of process {pid} are not timed: launches are counted")
        }
        LaunchDiagnostic::KernelFallback(KernelFallback::Root { pid, .. }) => {
            format!("GPU kernels below the root of process {pid} are not timed")
        }
        LaunchDiagnostic::KernelFallback(KernelFallback::NotStartedHere) => {
            "GPU kernels are not timed in what runs: record --gpu kernel -- PROGRAM".to_owned()
        }
        LaunchDiagnostic::KernelFallback(_) => "GPU kernels are not timed: launches are counted".to_owned(),
        LaunchDiagnostic::KernelFlood { .. } => {
            "times of GPU kernels are missing: they came too fast".to_owned()
        }
        LaunchDiagnostic::ProbesFailed(_) => {
            "launches on GPUs are not seen, or not all: probes failed".to_owned()
        }
        other => first_part(&launch_fact(other)),
    }
}

fn calls_in_brief(found: &CallDiagnostic) -> String {
    match found {
        CallDiagnostic::Cost { .. } | CallDiagnostic::PythonCost { .. } => {
            let cost_s = in_seconds(found.cost_ns());
            format!("counting calls took {cost_s:.2} s of the program's CPU time: count fewer functions")
        }
        CallDiagnostic::NotCounted { .. } => "calls of machine code were not counted".to_owned(),
        CallDiagnostic::NotFound { names } => {
            format!("not found, so not counted: {}", names.join(", "))
        }
        CallDiagnostic::TooMany { most, .. } => format!("calls of {most} functions are counted at the most"),
        CallDiagnostic::PythonNotCounted(PythonNotCounted::Untold { processes }) => {
            format!("calls of {} are missing: ended without reporting", counted(*processes, "Python process"))
        }
        CallDiagnostic::PythonNotCounted(PythonNotCounted::Version { .. }) => {
            "calls of Python functions were not counted: that needs Python 3.12".to_owned()
        }
        CallDiagnostic::PythonNotCounted(PythonNotCounted::Attached) => {
            "calls of Python functions were not counted: the program ran already".to_owned()
        }
        CallDiagnostic::PythonNotCounted(_) => "calls of Python functions were not counted".to_owned(),
        CallDiagnostic::InputSizesLimited { .. } => {
            "arguments of some calls were skipped, to take 1 % of the time at most".to_owned()
        }
        CallDiagnostic::Late { library, .. } => format!("counted late: calls of {library}"),
        other => first_part(&call_fact(other)),
    }
}

/// Without the domain's name.
fn domain_in_brief(what: &DomainDiagnostic) -> String {
    let words = match what {
        DomainDiagnostic::NoReading { missing_ns, of_ns, reasons } => {
            return missing_in_brief(*missing_ns, *of_ns, reasons);
        }
        DomainDiagnostic::BusyBeforeStart { percent, .. } => {
            return format!("CPUs were {percent} % busy before the start: idle is estimated");
        }
        DomainDiagnostic::GpuNotToldApart { names } => {
            return format!("only their sum is known: {}", some_of(names));
        }
        DomainDiagnostic::ModelCpuTime { .. } => "watts of each function are unknown: divided by CPU time",
        DomainDiagnostic::LackOfFit { .. } => "functions' watts change with time: wider intervals",
        DomainDiagnostic::NoIdleBaseline => "idle power unknown, charged to what ran: --idle-watts",
        DomainDiagnostic::GpuInUse { idle, .. } => match idle {
            IdleInUse::Unknown => "in use before the start: its idle power is not known",
            IdleInUse::Pauses => "in use before the start: idle power is what pauses show",
            IdleInUse::OfOthers => "others used it before the start: counts as idle power",
        },
        DomainDiagnostic::IdleAboveCounter { run: Some(_), .. } => {
            "idle power is above all that was measured: joules too low"
        }
        DomainDiagnostic::IdleAboveCounter { .. } => "idle power was above the counter in part of the run",
        DomainDiagnostic::GpuUnattributed => "not charged to functions: no launches were recorded",
        DomainDiagnostic::GpuSplit(split) if split.learned.is_none() => {
            "all launches or kernels count alike: watts of each are unknown"
        }
        DomainDiagnostic::GpuSplit(_) => "joules of functions are a guess: work ran at the same time",
        other => return first_part(&domain_fact(other)),
    };
    words.to_owned()
}

/// The first part of a sentence says what happened; what it changes and what to do about it come behind a semicolon.
fn first_part(sentence: &str) -> String {
    sentence.split("; ").next().unwrap_or(sentence).to_owned()
}

/// How far the model's own watts may be off.
fn doubt_of_model(source: &Source) -> Option<String> {
    let [low, high] = source.range_of_model()?.map(|part| part as f64 / 1e3);
    Some(format!("may be {low:.1} to {high:.1} times that: no counter, only CPU time times a constant"))
}

/// That energy was modelled, and how wrong that may be; `None` where it was counted. Of GPUs a finding says it.
pub fn model_in_brief(profile: &Profile) -> Option<String> {
    let modelled: Vec<&str> = (profile.ledger.iter())
        .filter(|row| row.quality == Quality::Estimated && row.class != DomainClass::Gpu)
        .map(|row| row.domain.as_str())
        .collect();
    let mut sources = profile.run.header.sources.iter().filter(|source| source.quality == Quality::Estimated);
    let doubt = sources.find_map(doubt_of_model);
    match (modelled.is_empty(), doubt) {
        (true, _) => None,
        (false, Some(doubt)) => Some(doubt),
        (false, None) => Some(no_counter(&modelled)),
    }
}
