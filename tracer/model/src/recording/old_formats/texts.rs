//! Sentences that formats 3 to 6 held, and the types that they are now.
//!
//! The texts are frozen: they are what the files of that time hold, whatever is shown today. `None`: not a text of that time.

use crate::recording::record::{
    CopyOutcome, IdleOrigin, LaunchDiagnostic, LossReason, PowerDiagnostic, RecordingDiagnostic, Runtime,
};

/// Why events were lost.
pub(super) fn loss_reason(text: &str) -> Option<LossReason> {
    Some(match text {
        "samples: ring buffer full" => LossReason::Samples,
        "samples: another CPU was sending one" => LossReason::SamplesBusy,
        "slices: ring buffer full" => LossReason::Slices,
        "slices and events: the kernel gave the buffer to others first" => LossReason::EventsBusy,
        "process events: ring buffer full" => LossReason::ProcessEvents,
        "processes: map of targets full" => LossReason::Targets,
        "kernel stacks: not readable" => LossReason::KernelStacks,
        "copies of stacks: ring buffer full" => LossReason::StackCopies,
        "waits and wake-ups: ring buffer full" => LossReason::Waits,
        "new Python functions of a sample: the ring buffer was full, so their names may be lost" => {
            LossReason::CodeObjects
        }
        "names of Python frames: code object gone before it was read" => LossReason::PythonNames,
        "calls of GPU libraries: ring buffer full" => LossReason::GpuCalls,
        "stacks of GPU launches: ring buffer full" => LossReason::LaunchStacks,
        "stacks of GPU launches: another thread's was being taken" => LossReason::LaunchStacksBusy,
        "launches: GPU not known" => LossReason::UnknownGpu,
        "events that could not be decoded" => LossReason::Undecodable,
        _ => return None,
    })
}

/// What became of a copy of a stack.
pub(super) fn copy_outcome(text: &str) -> Option<CopyOutcome> {
    Some(match text {
        "whole" => CopyOutcome::Whole,
        "whole but for gaps that were bridged" => CopyOutcome::WholeBridged,
        "whole at the second try, after a page fault" => CopyOutcome::WholeAtSecondTry,
        "not whole at the second try either, after a page fault" => CopyOutcome::CutAtSecondTry,
        "cut: the stack is deeper than the copy" => CopyOutcome::DeeperThanCopy,
        "cut for another reason" => CopyOutcome::Cut,
        "not unwound: the process was gone" => CopyOutcome::ProcessGone,
        _ => return None,
    })
}

/// How idle power was found: `measured over 1.0 s before the start, while the CPUs were 12 % busy: …`.
pub(super) fn idle_origin(text: &str) -> Option<IdleOrigin> {
    match text {
        "--idle-watts" => return Some(IdleOrigin::Given),
        "parameter of the model" => return Some(IdleOrigin::Model),
        _ => {}
    }
    let (seconds, rest) = text.strip_prefix("measured over ")?.split_once(" s before the start")?;
    let (whole, tenths) = seconds.split_once('.')?;
    let over_ns = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let over_ns = over_ns.checked_add(tenths.parse::<u64>().ok()?.checked_mul(100_000_000)?)?;
    let busy = rest.strip_prefix(", while the CPUs were ").and_then(|rest| rest.split_once(" % busy"));
    let busy_percent = busy.and_then(|(percent, _)| percent.parse().ok());
    Some(IdleOrigin::Measured { over_ns, busy_percent })
}

/// The interpreter of a process: `CPython 3.11.2`. Refusals keep their words.
pub(super) fn runtime(text: &str) -> Option<Runtime> {
    let version = text.strip_prefix("CPython ")?;
    let is_version = version.starts_with(|first: char| first.is_ascii_digit()) && !version.contains(' ');
    is_version.then(|| Runtime::CPython { version: version.to_owned() })
}

/// The diagnostics on which the attribution decides. Their sentences began with the domain: `gpu-0: …`.
pub(super) fn diagnostic(code: &str, text: &str) -> Option<RecordingDiagnostic> {
    let (domain, rest) = text.split_once(": ")?;
    let domain = domain.to_owned();
    match code {
        "gpu-mig" => Some(PowerDiagnostic::GpuMig { domain }.into()),
        "gpu-virtual" => Some(PowerDiagnostic::GpuVirtual { domain }.into()),
        "gpu-module" => Some(PowerDiagnostic::GpuModule { domain }.into()),
        "gpu-streams" => {
            let percent = rest.split_once(" %")?.0.parse().ok()?;
            Some(LaunchDiagnostic::Streams { domain, percent }.into())
        }
        _ => None,
    }
}
