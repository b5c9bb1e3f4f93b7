//! What was lost while recording, and what became of the copies of stacks: reasons as types. Part of what a recording holds (`record`).
//!
//! Leaves out the sentences for them, which the report makes, and noticing a loss, which is the probes' task.

use serde::{Deserialize, Serialize};

/// Why events, or a part of what belongs to them, were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossReason {
    /// Samples that found no room in their ring buffer.
    Samples,
    /// Samples that came while another CPU was sending one.
    SamplesBusy,
    /// Slices that found no room in the ring buffer.
    Slices,
    /// Slices and events that came while the kernel gave the buffer to others.
    EventsBusy,
    /// Starts and ends of processes that found no room in the ring buffer.
    ProcessEvents,
    /// Processes that found no room in the map of targets.
    Targets,
    /// Kernel stacks that could not be read.
    KernelStacks,
    /// Copies of stacks that found no room in the ring buffer.
    StackCopies,
    /// Waits and wake-ups that found no room in the ring buffer.
    Waits,
    /// Code objects of a sample that found no room in the ring buffer: their names may be lost.
    CodeObjects,
    /// Code objects that were gone before their names were read.
    PythonNames,
    /// Calls of GPU libraries that found no room in the ring buffer.
    GpuCalls,
    /// Stacks of GPU launches that found no room in the ring buffer.
    LaunchStacks,
    /// Stacks of GPU launches that came while another thread's was being taken.
    LaunchStacksBusy,
    /// Launches on a GPU that is not known.
    UnknownGpu,
    /// Events that could not be decoded.
    Undecodable,
    /// Turns on a CPU of processes whose time found no room where it is summed: it is others'.
    CpuTotals,
}

impl LossReason {
    /// All reasons.
    pub const ALL: [Self; 17] = [
        Self::Samples,
        Self::SamplesBusy,
        Self::Slices,
        Self::EventsBusy,
        Self::ProcessEvents,
        Self::Targets,
        Self::KernelStacks,
        Self::StackCopies,
        Self::Waits,
        Self::CodeObjects,
        Self::PythonNames,
        Self::GpuCalls,
        Self::LaunchStacks,
        Self::LaunchStacksBusy,
        Self::UnknownGpu,
        Self::Undecodable,
        Self::CpuTotals,
    ];

    /// Whether a ring buffer was full: a lower rate loses fewer.
    pub const fn is_full_buffer(&self) -> bool {
        matches!(
            self,
            Self::Samples
                | Self::Slices
                | Self::ProcessEvents
                | Self::StackCopies
                | Self::Waits
                | Self::CodeObjects
                | Self::GpuCalls
                | Self::LaunchStacks
        )
    }
}

/// What became of a copy of a stack that user space unwinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CopyOutcome {
    /// Unwound to the outermost frame.
    Whole,
    /// Unwound to the outermost frame, over gaps that were bridged.
    WholeBridged,
    /// Unwound to the outermost frame at the second try, after a page fault.
    WholeAtSecondTry,
    /// Not whole at the second try either, after a page fault.
    CutAtSecondTry,
    /// The stack is deeper than the copy.
    DeeperThanCopy,
    /// Cut for another reason.
    Cut,
    /// Not unwound: the process was gone.
    ProcessGone,
}

impl CopyOutcome {
    /// All outcomes.
    pub const ALL: [Self; 7] = [
        Self::Whole,
        Self::WholeBridged,
        Self::WholeAtSecondTry,
        Self::CutAtSecondTry,
        Self::DeeperThanCopy,
        Self::Cut,
        Self::ProcessGone,
    ];

    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::WholeBridged => "whole-bridged",
            Self::WholeAtSecondTry => "whole-at-second-try",
            Self::CutAtSecondTry => "cut-at-second-try",
            Self::DeeperThanCopy => "deeper-than-copy",
            Self::Cut => "cut",
            Self::ProcessGone => "process-gone",
        }
    }
}
