//! Sentences for what was found while recording.

use super::account::account_fact;
use super::calls::call_fact;
use super::launches::launch_fact;
use super::owners::owner_fact;
use super::power::{advice, power_fact};
use super::ranges::range_fact;
use super::{counted, in_seconds, were};
use energy_trace_model::recording::record::{CutReason, ReadFailure, RecordingDiagnostic, Unanswering};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use std::borrow::Cow;

const TIME_SUMMED: &str = "CPU time was summed by process between readings of power (--slices no): threads share their process's \
    as their samples show, what happened within a tenth of a second is not known, and workers are charged by themselves";

/// What was found, what it changes, and what to do about it.
pub fn recorded(found: &RecordingDiagnostic) -> String {
    match found {
        RecordingDiagnostic::RecordingCut { whole_bytes, whole_ns, reason } => {
            cut(*whole_bytes, *whole_ns, reason)
        }
        RecordingDiagnostic::NoMmapEvents { error } => {
            format!("libraries loaded while it runs are noticed late: {error}")
        }
        RecordingDiagnostic::SampleEventRefused { error } => {
            format!("{error}; the CPU clock samples instead")
        }
        RecordingDiagnostic::SampleRateLimited { hz, wanted_hz, aligned, limit, enough, after_ns } => {
            rate_limited(&limited_rate(*hz, *wanted_hz, *aligned, *limit), *enough, *after_ns)
        }
        RecordingDiagnostic::MachinePaused { times, cpu_ns } => machine_paused(*times, *cpu_ns),
        RecordingDiagnostic::SamplesMissing { taken, expected, cpu_ns } => {
            samples_missing(*taken, *expected, *cpu_ns)
        }
        RecordingDiagnostic::UnwindTablesFull { mib, dropped, without } => {
            tables_full(*mib, *dropped, *without)
        }
        RecordingDiagnostic::MappingsFull { processes, places, places_each } => {
            mappings_full(*processes, *places, *places_each)
        }
        RecordingDiagnostic::PythonNamesLimited { mib, times, mark } => {
            python_names_limited(*mib, *times, mark)
        }
        RecordingDiagnostic::NamesNotLookedUp { files } => format!(
            "{} removed, or the program that used it had ended, before energy-trace could open it: functions there have no names",
            were(*files, "file")
        ),
        RecordingDiagnostic::FilesNotRead { files, more } => files_not_read(files, *more),
        RecordingDiagnostic::ProcessesNotAnswering { processes, more } => not_answering(processes, *more),
        RecordingDiagnostic::CommandLinesCut { programs } => command_lines_cut(*programs),
        RecordingDiagnostic::ReaderDied => "the reader of events died; the recording ends early".to_owned(),
        RecordingDiagnostic::PushTimes { samples, events } => {
            format!("samples {}; events {}", numbers(samples), numbers(events))
        }
        RecordingDiagnostic::Launches(found) => launch_fact(found),
        RecordingDiagnostic::Calls(found) => call_fact(found),
        RecordingDiagnostic::Account(found) => account_fact(found),
        RecordingDiagnostic::Owners(found) => owner_fact(found),
        RecordingDiagnostic::Ranges(found) => range_fact(found),
        RecordingDiagnostic::Power(found) => {
            let advice = advice(found).map(|advice| format!("; {advice}"));
            format!("{}{}", power_fact(found), advice.unwrap_or_default())
        }
        RecordingDiagnostic::TimeSummed => TIME_SUMMED.to_owned(),
        RecordingDiagnostic::SamplesNotJittered { hz, limit, enough } => format!(
            "{}: if a loop of the program keeps step with them, only a part of it is seen; `{}` before the next recording leaves room",
            without_jitter(*hz, *limit),
            raise_limit(*enough)
        ),
    }
}

fn machine_paused(times: u64, cpu_ns: u64) -> String {
    format!(
        "{} no samples came although many were due, for {:.2} s of CPU time in all: the machine stood still (a paused virtual \
         machine, a freeze), or samples were lost; that time is shown as {}",
        counted(times, "time"),
        in_seconds(cpu_ns),
        SyntheticFrame::Unsampled.name()
    )
}

fn cut(whole_bytes: Option<u64>, whole_ns: Option<u64>, reason: &CutReason) -> String {
    let Some(bytes) = whole_bytes else {
        return "the recording was cut off before its end: what it holds is reported, and what was lost is not known".to_owned();
    };
    let time = whole_ns.map(|ns| format!(", {:.2} s after the start", in_seconds(ns)));
    format!(
        "the recording ends early, at byte {bytes}{} ({reason}): what came after is not counted, its losses are not known, and native \
         functions whose names were stored there have none",
        time.unwrap_or_default()
    )
}

/// Samples that come, beside those that were wanted.
pub fn limited_rate(hz: u32, wanted_hz: u32, aligned: bool, limit: u32) -> String {
    let aligned = if aligned {
        ", each a fixed time after the kernel's tick, so that what runs in step with it is seen too often or never"
    } else {
        ""
    };
    format!(
        "{hz} samples a second on each CPU instead of {wanted_hz}{aligned} (kernel.perf_event_max_sample_rate is {limit})"
    )
}

/// Samples that come, and why evenly.
pub fn without_jitter(hz: u32, limit: u32) -> String {
    format!(
        "{hz} samples a second on each CPU come evenly spaced, as the kernel's limit leaves no room for random distances \
         (kernel.perf_event_max_sample_rate is {limit})"
    )
}

fn raise_limit(enough: u32) -> String {
    format!("sudo sysctl kernel.perf_event_max_sample_rate={enough}")
}

fn rate_limited(rate: &str, enough: u32, after_ns: Option<u64>) -> String {
    let fix = raise_limit(enough);
    match after_ns {
        None => format!("the kernel allows {rate}; `{fix}` before the next recording lifts that limit"),
        Some(after) => format!(
            "{:.0} s after the start the kernel lowered its limit, because interrupts seemed slow; since then it allows at most {rate}; \
             CPU time is exact all the same, and `{fix}` lifts the limit before the next recording",
            in_seconds(after)
        ),
    }
}

fn samples_missing(taken: u64, expected: u64, cpu_ns: u64) -> String {
    format!(
        "{} taken where {:.2} s of CPU time should have given {expected}: the kernel held some back, or the host took \
         the CPUs away; CPU time is exact all the same, but shares of functions are rougher (`dmesg | grep perf` says whether \
         interrupts took too long)",
        were(taken, "sample"),
        in_seconds(cpu_ns)
    )
}

fn mappings_full(processes: u64, places: u64, places_each: u64) -> String {
    format!(
        "there was no room for the code mappings of {} ({places} for all processes, {places_each} for one), so their native stacks are cut \
         ([unknown: tables not ready] or [unknown: unmapped address]); follow fewer programs at once: a command or --pid instead of --all",
        counted(processes, "process")
    )
}

fn tables_full(mib: u32, dropped: u64, without: u64) -> String {
    format!(
        "unwind tables did not fit into {mib} MiB: {} one was dropped for another that was needed more, and {} without one at the end; \
         stacks through these files are unwound in user space, from copies, which costs more; --unwind-memory {} gives tables twice the \
         room",
        counted(dropped, "time"),
        were(without, "file"),
        mib.saturating_mul(2)
    )
}

fn python_names_limited(mib: u64, times: u64, mark: &str) -> String {
    format!(
        "names of Python functions took {mib} MiB, and the program went on making new ones: {} one had no room and is shown as {mark}; \
         energy and time are right; record a shorter part of the program",
        counted(times, "time")
    )
}

fn command_lines_cut(programs: u64) -> String {
    format!(
        "command lines of {} are long and recorded in part: 4 KiB of each and 1 MiB of one user's in all, then only the program's name",
        counted(programs, "program")
    )
}

fn not_answering(processes: &[Unanswering], more: u64) -> String {
    let name = |process: &Unanswering| {
        format!("{} (process {} of user {})", process.name, process.pid, process.user)
    };
    let named: Vec<String> = processes.iter().map(name).collect();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "memory or files of {}{more} could not be read within 2 s, so that functions of these processes have no names or cut stacks: what \
         they have mapped lies on a file system that does not answer (a stopped FUSE or network server); times and joules are right, and \
         other processes are not affected",
        named.join(", ")
    )
}

fn files_not_read(files: &[(String, ReadFailure)], more: u64) -> String {
    let named: Vec<String> =
        files.iter().map(|(file, failure)| format!("{file} ({})", read_failure(*failure))).collect();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "files that could not be read to the end: {}{more}; their functions may have no names, and native stacks through them may be cut; \
         times and joules are not affected",
        named.join(", ")
    )
}

fn read_failure(failure: ReadFailure) -> Cow<'static, str> {
    let text = match failure {
        ReadFailure::Died => {
            "the process that read it ended: too much memory, a damaged file, or one that was changed meanwhile"
        }
        ReadFailure::TookTooLong => "reading it took too long",
        ReadFailure::Nonsense => "what was read made no sense",
        ReadFailure::Damaged => "it is damaged, or was changed while it was recorded",
        ReadFailure::TooLarge => "its headers say that it is far larger than it is",
        ReadFailure::MoreThanItsCode => {
            "it has more unwind information than its code can need, of which the first part was read"
        }
        ReadFailure::NotRoots { user } => {
            return format!(
                "root may not read files of user {user} on this file system (FUSE without allow_other, NFS), and a copy with that user's \
                 rights failed"
            )
            .into();
        }
    };
    text.into()
}

fn numbers(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
