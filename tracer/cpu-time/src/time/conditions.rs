//! What else power depends on beside the function: who shares the core (`smt`), and how fast its clock runs
//! (`dvfs`).
//!
//! Leaves out how much: the run shows that (`power_model::corrections`).

use crate::time::dvfs::Clocks;
use crate::time::owners::Segment;
use crate::time::smt::Siblings;
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::Recording;

/// Under what conditions CPUs worked.
#[derive(Debug, Default)]
pub struct Conditions {
    siblings: Siblings,
    clocks: Clocks,
}

impl Conditions {
    /// Of all segments, ordered by CPU and start.
    pub fn of(recording: &Recording, segments: &[Segment]) -> Self {
        Self {
            siblings: Siblings::of(&recording.cores, segments),
            clocks: Clocks::of(&recording.clocks, segments),
        }
    }

    /// Whether any CPUs share a core.
    pub fn share_cores(&self) -> bool {
        !self.siblings.is_empty()
    }

    /// Whether the clock of any CPU is known.
    pub fn have_clocks(&self) -> bool {
        !self.clocks.is_empty()
    }

    /// For what part of a time on a CPU a sibling was busy.
    pub fn shared(&self, cpu: CpuId, span: Span) -> f64 {
        self.siblings.shared(cpu, span)
    }

    /// A CPU's clock in a time, in parts of the mean of all.
    pub fn clock(&self, cpu: CpuId, span: Span) -> f64 {
        self.clocks.within(cpu, span)
    }
}
