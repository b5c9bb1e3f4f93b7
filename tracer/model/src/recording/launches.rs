//! What was launched on GPUs, and who waited for them. Part of what a recording holds (`record`).
//!
//! A launch is one word for everything that gives a GPU work: a kernel, a copy, a memset. Replays of a graph are here as launches of what
//! was captured into it; launches during a capture execute nothing and are not here. Leaves out durations (`kernels`).

use super::kernels::{GpuBusy, KernelTier};
use crate::clock::KtimeNs;
use crate::ids::{StackId, ThreadKey};
use serde::{Deserialize, Serialize};

/// Launches on one GPU between two moments, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launches {
    /// The GPU, by its index (`Scope::Gpu`).
    pub device: u32,
    /// Not after the first of them.
    pub from: KtimeNs,
    /// Not before the last of them.
    pub until: KtimeNs,
    /// Each thread, stack and size once.
    pub work: Vec<Launched>,
}

/// Launches of one thread in one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// Who launched.
    pub thread: ThreadKey,
    /// Where: a stack whose innermost frame is what was launched, a kernel (`FrameKind::Gpu`) or a mark for a copy or memset
    /// (`FrameKind::Special`).
    pub stack: StackId,
    /// How often.
    pub count: u64,
    /// All of them together: GPU threads of kernels, bytes of copies and memsets; 0 where that is not known.
    pub amount: u64,
}

/// A thread waits until a GPU has done all that it was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuWait {
    /// Who.
    pub thread: ThreadKey,
    /// The GPU, by its index.
    pub device: u32,
    /// The call.
    pub from: KtimeNs,
    /// Its return.
    pub until: KtimeNs,
}

/// Whose stack launches stand in. Counts and joules are whole in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchStacks {
    /// Launches whose own stack was taken.
    pub own: u64,
    /// Launches that came faster than stacks are taken: they stand in the last stack that was taken at their place (the caller's address, its
    /// stack pointer and the function).
    pub thinned: u64,
    /// Launches at whose place no stack was taken: they stand in no stack.
    pub none: u64,
}

impl LaunchStacks {
    /// Each count with its name in reports; none where nothing was launched.
    pub fn named(self) -> Vec<(&'static str, u64)> {
        let named =
            vec![("own", self.own), ("of-the-place:thinned", self.thinned), ("none:not-taken", self.none)];
        if self == Self::default() { vec![] } else { named }
    }
}

impl std::ops::AddAssign for LaunchStacks {
    fn add_assign(&mut self, other: Self) {
        self.own = self.own.saturating_add(other.own);
        self.thinned = self.thinned.saturating_add(other.thinned);
        self.none = self.none.saturating_add(other.none);
    }
}

/// All that is known about GPUs' work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuWork {
    /// Ordered by their start.
    pub launches: Vec<Launches>,
    /// Ordered by their end.
    pub waits: Vec<GpuWait>,
    /// What was done, with exact times, where the kernel tier told of it; ordered by its start.
    pub busy: Vec<GpuBusy>,
    /// Whose stacks the launches stand in.
    pub stacks: LaunchStacks,
    /// Each process that the kernel tier told of.
    pub tiers: Vec<KernelTier>,
}
