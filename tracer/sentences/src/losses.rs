//! Words for what was lost while recording, and for what became of copies of stacks.

use energy_trace_model::recording::record::{CopyOutcome, LossReason};

/// What was lost, and why.
pub const fn loss(reason: &LossReason) -> &'static str {
    match reason {
        LossReason::Samples => "samples: buffer full",
        LossReason::SamplesBusy => "samples: another CPU was sending one",
        LossReason::Slices => "slices: buffer full",
        LossReason::EventsBusy => "slices and events: the kernel gave the buffer to others first",
        LossReason::ProcessEvents => "process events: buffer full",
        LossReason::Targets => "processes: map of targets full",
        LossReason::KernelStacks => "kernel stacks: not readable",
        LossReason::StackCopies => "copies of stacks: buffer full",
        LossReason::Waits => "waits and wake-ups: buffer full",
        LossReason::CodeObjects => {
            "new Python functions of a sample: buffer full, so their names may be missing"
        }
        LossReason::PythonNames => {
            "names of Python functions, whose energy has none: code object gone before it was read"
        }
        LossReason::GpuCalls => "calls of GPU libraries: buffer full",
        LossReason::LaunchStacks => "stacks of GPU launches: buffer full",
        LossReason::LaunchStacksBusy => "stacks of GPU launches: another thread's was being taken",
        LossReason::UnknownGpu => "launches: GPU not known",
        LossReason::Undecodable => "events that could not be decoded",
        LossReason::CpuTotals => {
            "turns on a CPU: no room to sum them by process, so they are other processes'"
        }
    }
}

/// What became of a copy of a stack.
pub const fn copy_outcome(outcome: &CopyOutcome) -> &'static str {
    match outcome {
        CopyOutcome::Whole => "whole",
        CopyOutcome::WholeBridged => "whole but for gaps that were bridged",
        CopyOutcome::WholeAtSecondTry => "whole at the second try, after a page fault",
        CopyOutcome::CutAtSecondTry => "not whole at the second try either, after a page fault",
        CopyOutcome::DeeperThanCopy => "cut: the stack is deeper than the copy",
        CopyOutcome::Cut => "cut for another reason",
        CopyOutcome::ProcessGone => "not unwound: the process was gone",
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_outcome, loss};
    use energy_trace_model::recording::record::{CopyOutcome, LossReason};
    use std::collections::BTreeSet;

    /// Each reason and each outcome has words of its own, and the advice for full buffers goes with the words.
    #[test]
    fn each_has_its_words() {
        let losses: BTreeSet<&str> = LossReason::ALL.iter().map(loss).collect();
        assert_eq!(losses.len(), LossReason::ALL.len());
        for reason in &LossReason::ALL {
            assert_eq!(reason.is_full_buffer(), loss(reason).contains("buffer full"), "{reason:?}");
        }
        let copies: BTreeSet<&str> = CopyOutcome::ALL.iter().map(copy_outcome).collect();
        let codes: BTreeSet<&str> = CopyOutcome::ALL.iter().map(CopyOutcome::code).collect();
        assert_eq!((copies.len(), codes.len()), (CopyOutcome::ALL.len(), CopyOutcome::ALL.len()));
    }
}
