//! CPU time of one line between two neighbouring samples.
//!
//! Leaves out what was probably done in it (`between_samples`).

use super::owners::OwnerId;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;

/// Stands for no sample on one side.
pub const NOBODY: OwnerId = OwnerId::MAX;
/// The number of a line whose time is not in doubt, or not known at all: background processes, and who was never sampled.
pub const NO_LINE: u32 = u32::MAX;

/// Stands for no gap between two samples.
pub const NO_GAP: u32 = u32::MAX;

/// A sample on its thread's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of its line.
    pub line: u32,
    /// When.
    pub at: KtimeNs,
    /// CPU time of the line before it.
    pub cpu_ns: u64,
    /// Whose stack it is.
    pub owner: OwnerId,
}

/// The sample on one side of a piece, and how far away it is in CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Whose.
    pub owner: OwnerId,
    /// CPU time between the two, in nanoseconds.
    pub ns: u64,
    /// Time off the CPU between the piece and the sample.
    pub slept_ns: u64,
}

/// Time of one line on one CPU between two neighbouring samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where.
    pub cpu: CpuId,
    /// When.
    pub span: Span,
    /// Number of the line that it is of.
    pub line: u32,
    /// The sample before.
    pub left: End,
    /// The sample behind.
    pub right: End,
    /// The position of the sample on the right in `CpuTime::marks`; the one on the left is before it. `NO_GAP` where neither is a sample.
    pub gap: u32,
}

impl Piece {
    /// Time whose owner is certain.
    pub const fn certain(cpu: CpuId, span: Span, owner: OwnerId) -> Self {
        let end = End { owner, ns: 0, slept_ns: 0 };
        Self { cpu, span, line: NO_LINE, left: end, right: end, gap: NO_GAP }
    }

    /// The owner, where it is certain.
    pub const fn known_owner(&self) -> Option<OwnerId> {
        if self.line == NO_LINE { Some(self.left.owner) } else { None }
    }
}

/// A slice of a line: CPU, span, and the line's CPU time before it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Where.
    pub cpu: CpuId,
    /// When.
    pub span: Span,
    /// The line's CPU time before it.
    pub cpu_ns: u64,
}
