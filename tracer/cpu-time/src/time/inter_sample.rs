//! The samples on a track's CPU time, and between which of them a slice of it lies (`compact_slices`).
//!
//! Leaves out what was probably done in it (`between_samples`).

use super::owners::OwnerId;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;

/// Stands for no sample on one side.
pub const NOBODY: OwnerId = OwnerId::MAX;
/// The number of a track whose time is not in doubt, or not known at all: background processes, and who was
/// never sampled.
pub const NO_TRACK: u32 = u32::MAX;

/// Stands for no gap between two samples.
pub const NO_GAP: u32 = u32::MAX;

/// A sample on its thread's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplePoint {
    /// The number of its track.
    pub track: u32,
    /// When it was taken.
    pub at: KtimeNs,
    /// CPU time of the track before it.
    pub cpu_ns: u64,
    /// Whose stack it is.
    pub owner: OwnerId,
}

/// The sample on one side of a slice, and how far away it is in CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Whose stack it is.
    pub owner: OwnerId,
    /// CPU time between the two, in nanoseconds.
    pub ns: u64,
    /// Time off the CPU between the slice and the sample.
    pub slept_ns: u64,
}

/// What a slice lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The number of its track.
    pub track: u32,
    /// The sample before.
    pub left: Neighbour,
    /// The sample after.
    pub right: Neighbour,
    /// The position of the sample on the right in `CpuTime::points`; the one on the left is before it.
    /// `NO_GAP` where neither is a sample.
    pub gap: u32,
}

impl Ends {
    /// Those of time whose owner is certain.
    pub const fn certain(owner: OwnerId) -> Self {
        let end = Neighbour { owner, ns: 0, slept_ns: 0 };
        Self { track: NO_TRACK, left: end, right: end, gap: NO_GAP }
    }

    /// The owner, where it is certain.
    pub const fn known_owner(&self) -> Option<OwnerId> {
        if self.track == NO_TRACK { Some(self.left.owner) } else { None }
    }
}

/// A slice of a track: CPU, span, and the track's CPU time before it.
#[derive(Clone, Copy, Debug)]
pub struct TrackRun {
    /// Where.
    pub cpu: CpuId,
    /// When.
    pub span: Span,
    /// The track's CPU time before it.
    pub cpu_ns: u64,
}

impl TrackRun {
    /// When the track had so much CPU time; the run's start or end if that was before or after it.
    #[must_use]
    pub fn at(&self, cpu_ns: u64) -> KtimeNs {
        let ns = cpu_ns.saturating_sub(self.cpu_ns).min(self.span.ns());
        KtimeNs::from_ns(self.span.start.as_ns().saturating_add(ns))
    }
}
