//! Sentences for what was found when a recording was held against the kernel's account.

use super::{counted, in_seconds};
use energy_trace_model::recording::record::{AccountDiagnostic, HiddenFile, TimeDifference};

/// What was found, what it changes, and what to do about it.
pub(super) fn account_fact(found: &AccountDiagnostic) -> String {
    match found {
        AccountDiagnostic::CpuTime { recorded_ns, kernel_ns, cause } => {
            cpu_time(*recorded_ns, *kernel_ns, *cause)
        }
        AccountDiagnostic::StillRunning { processes, name, pid } => still_running(*processes, name, *pid),
        AccountDiagnostic::WorkedElsewhere { own_ns, of_ns, name, pid, other_ns } => format!(
            "the program used {:.2} s of CPU time in {:.1} s, but {name} (process {pid}, not started by it) used {:.1} s; if that worked \
             for the program, as a server or daemon does, record it with `energy-trace record -p {pid}` while the program runs: here it \
             counts as others",
            in_seconds(*own_ns),
            in_seconds(*of_ns),
            in_seconds(*other_ns)
        ),
        AccountDiagnostic::RecorderStarved { longest_ns } => format!(
            "energy-trace waited up to {:.1} s for a CPU; libraries and processes that started in that time were noticed late, and their \
             functions may have no names; leave it a CPU, or give it a higher priority (`nice -n -10`)",
            in_seconds(*longest_ns)
        ),
        AccountDiagnostic::Hidden { files } => {
            let each: Vec<String> =
                files.iter().map(|file| format!("{} ({})", file.path(), without(*file))).collect();
            format!("hidden from energy-trace: {}; all else is recorded as usual", each.join(", "))
        }
    }
}

/// The same in one line, for the summary.
pub(super) fn account_in_brief(found: &AccountDiagnostic) -> String {
    match found {
        AccountDiagnostic::CpuTime { recorded_ns, kernel_ns, cause } => format!(
            "CPU time: {:.2} s recorded, {:.2} s by the kernel: {}",
            in_seconds(*recorded_ns),
            in_seconds(*kernel_ns),
            difference(*cause)
        ),
        AccountDiagnostic::StillRunning { processes: 1, name, pid } => {
            format!("{name} ({pid}) still runs: its work from now on is not recorded")
        }
        AccountDiagnostic::StillRunning { processes, name, pid } => {
            format!(
                "{}, as {name} ({pid}), still run and are not recorded now",
                counted(*processes, "process")
            )
        }
        AccountDiagnostic::WorkedElsewhere { own_ns, name, pid, other_ns, .. } => format!(
            "{:.1} s of CPU time here, {:.1} s by {name} ({pid}): was the work there?",
            in_seconds(*own_ns),
            in_seconds(*other_ns)
        ),
        AccountDiagnostic::RecorderStarved { longest_ns } => {
            format!(
                "energy-trace waited up to {:.1} s for a CPU: names may be missing",
                in_seconds(*longest_ns)
            )
        }
        AccountDiagnostic::Hidden { files } if files.contains(&HiddenFile::KernelSymbols) => {
            "kernel functions have no names: CAP_SYSLOG shows them".to_owned()
        }
        AccountDiagnostic::Hidden { files } => {
            format!("{} not shown in this container", counted(files.len() as u64, "kernel file"))
        }
    }
}

fn cpu_time(recorded_ns: u64, kernel_ns: u64, cause: TimeDifference) -> String {
    let [recorded, kernel] = [recorded_ns, kernel_ns].map(in_seconds);
    let percent = (recorded - kernel).abs() / kernel.max(1e-9) * 100.0;
    let (less, change) = match recorded_ns < kernel_ns {
        true => ("less", "the program's joules are too low by about as much"),
        false => ("more", "the program's joules may be too high by as much"),
    };
    format!(
        "{recorded:.2} s of CPU time were recorded, {percent:.0}% {less} than the kernel's {kernel:.2} s: {}; {change}; {}",
        difference(cause),
        remedy(cause)
    )
}

const fn difference(cause: TimeDifference) -> &'static str {
    match cause {
        TimeDifference::SlicesLost => "slices were lost",
        TimeDifference::NotFollowed => "too many processes to follow",
        TimeDifference::CpusOutOfReach => "some CPUs are forbidden to energy-trace",
        TimeDifference::Starved => "energy-trace got no CPU",
        TimeDifference::Stolen => "the host took CPUs away",
        TimeDifference::Unknown => "no known cause",
    }
}

const fn remedy(cause: TimeDifference) -> &'static str {
    match cause {
        TimeDifference::SlicesLost => "record fewer programs at once, or a shorter part",
        TimeDifference::NotFollowed => "record a part of them: a command, or `-p`",
        TimeDifference::CpusOutOfReach => {
            "start it outside the control group (cpuset) that keeps it off the program's CPUs"
        }
        TimeDifference::Starved => "leave energy-trace a CPU, or give it a higher priority (`nice -n -10`)",
        TimeDifference::Stolen => "record on a host that is less busy",
        TimeDifference::Unknown => "please report it, with the recording",
    }
}

fn still_running(processes: u64, name: &str, pid: u32) -> String {
    let who = match processes {
        1 => format!("a process that the command started still runs ({name}, {pid})"),
        _ => format!("{processes} processes that the command started still run (one is {name}, {pid})"),
    };
    format!(
        "{who}: its work from now on is not recorded; `energy-trace record -p {pid}` records it; if it is stopped before the command \
         ends, all of its work is in this recording"
    )
}

const fn without(file: HiddenFile) -> &'static str {
    match file {
        HiddenFile::KernelSymbols => {
            "kernel functions have no names; CAP_SYSLOG shows them, where no container or kernel.kptr_restrict hides them"
        }
        HiddenFile::CpuTimes => "whether the machine was idle before the start is not known",
        HiddenFile::CpuModel => "the CPU's model is not known",
        HiddenFile::KernelSettings => "the kernel's limit on samples is not known",
        HiddenFile::CpuList => "which CPUs share a socket is not known",
    }
}
