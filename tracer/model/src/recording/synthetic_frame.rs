//! Frames that stand for no code, or for code that is not known: which there are, and what they are called.
//!
//! The names are those of frames in recordings and in every export, as the names of functions are. Leaves out labels that a report makes
//! for energy outside stacks (`[other processes]`), which are no frames of a recording.

use super::record::{Frame, FrameKind};

/// What a frame in brackets stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyntheticFrame {
    /// Time on a CPU that no sample saw.
    Unsampled,
    /// Between the one who asked and the one who works.
    OnBehalfOf,
    /// The same where the call is over, and its worker spins on or still works.
    OnBehalfOfAfterCall,
    /// A thread that waits for a GPU.
    GpuWait,
    /// A copy to, from or between GPUs.
    GpuCopy,
    /// Memory of a GPU that is set to a value.
    GpuMemset,
    /// A GPU graph that is replayed; below it who captured the work, where that is known.
    GpuGraph,
    /// The stack of a launch was not taken.
    LaunchStackNotTaken,
    /// A Python function whose code object was gone before it was read.
    PythonGone,
    /// A Python function of a program that has more names than are kept.
    PythonCrowdedOut,
    /// Native code that says nothing of how to unwind it.
    NoUnwindInfo,
    /// The part of the stack that was copied ended.
    BeyondCopy,
    /// The process ended before its stack was unwound.
    ProcessGone,
    /// The unwind tables of the process were not made yet.
    TablesNotReady,
    /// An address at which nothing is mapped.
    UnmappedAddress,
    /// A rule of unwinding that is not supported.
    UnsupportedRule,
    /// Memory that was not resident.
    PageFault,
    /// Memory that could not be read.
    Unreadable,
    /// Code of a 32-bit program.
    Bits32,
    /// More frames than are taken.
    TooDeep,
    /// The place where C called Python was not found.
    WhereCCalledPython,
    /// A chain of Python frames that does not end where it must.
    BrokenPythonChain,
    /// A process with several Python interpreters.
    WhichInterpreter,
    /// A frame that cannot be.
    BadFrame,
}

impl SyntheticFrame {
    /// The name of its frames.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsampled => "[unsampled]",
            Self::OnBehalfOf => "[on behalf of]",
            Self::OnBehalfOfAfterCall => "[on behalf of, after the call]",
            Self::GpuWait => "[GPU wait]",
            Self::GpuCopy => "[GPU copy]",
            Self::GpuMemset => "[GPU memset]",
            Self::GpuGraph => "[GPU graph]",
            Self::LaunchStackNotTaken => "[unknown: launch stack not taken]",
            Self::PythonGone => "[unknown: Python function that is gone]",
            Self::PythonCrowdedOut => "[unknown: Python function, too many names]",
            Self::NoUnwindInfo => "[no unwind info]",
            Self::BeyondCopy => "[unknown: stack deeper than the copy]",
            Self::ProcessGone => "[unknown: process gone]",
            Self::TablesNotReady => "[unknown: tables not ready]",
            Self::UnmappedAddress => "[unknown: unmapped address]",
            Self::UnsupportedRule => "[unknown: unsupported unwind rule]",
            Self::PageFault => "[unknown: page fault]",
            Self::Unreadable => "[unknown: memory not readable]",
            Self::Bits32 => "[unknown: 32-bit program]",
            Self::TooDeep => "[unknown: too deep]",
            Self::WhereCCalledPython => "[unknown: where C called Python]",
            Self::BrokenPythonChain => "[unknown: broken chain of Python frames]",
            Self::WhichInterpreter => "[unknown: which interpreter]",
            Self::BadFrame => "[unknown: bad frame]",
        }
    }

    /// A frame that is this mark.
    pub fn frame(self) -> Frame {
        Frame::special(self.name())
    }

    /// Whether a frame is this mark.
    pub fn is(self, frame: &Frame) -> bool {
        frame.kind == FrameKind::Special && frame.name == self.name()
    }
}

/// The module of frames in code that was made at run time; it begins the names of those without one, as in `[jit: node]`.
pub const JIT_MODULE: &str = "[jit]";

/// What code of a program that was made at run time is called, where nothing gives it a name.
pub fn jit_without_name(program: &str) -> String {
    if program.is_empty() { JIT_MODULE.to_owned() } else { format!("[jit: {program}]") }
}

/// The program of a frame in such code; `None` of frames with names.
pub fn program_of_jit(frame: &Frame) -> Option<&str> {
    let program = frame.name.strip_prefix("[jit: ").and_then(|rest| rest.strip_suffix(']'));
    program.filter(|_| frame.kind == FrameKind::Native && frame.module == JIT_MODULE)
}

/// Whether a frame stands for a Python function without a name.
pub fn is_nameless_python(frame: &Frame) -> bool {
    [SyntheticFrame::PythonGone, SyntheticFrame::PythonCrowdedOut].iter().any(|mark| mark.is(frame))
}
