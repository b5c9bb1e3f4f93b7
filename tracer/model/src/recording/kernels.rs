//! What GPUs did for launches, as the driver's own records (CUPTI) tell it: the kernel tier. Part of what a recording holds (`record`).
//!
//! Leaves out launches of which no record came: those are in `launches` alone.

use crate::clock::KtimeNs;
use crate::ids::{StackId, ThreadKey};
use serde::{Deserialize, Serialize};

/// Work of one stack that a GPU did: one kernel, or several that followed each other closely with nothing of that process between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuBusy {
    /// The first start on the GPU.
    pub from: KtimeNs,
    /// When it was launched; of several the first.
    pub launched: KtimeNs,
    /// The last end.
    pub until: KtimeNs,
    /// Nanoseconds in which they ran, added up.
    pub busy_ns: u64,
    /// The GPU, by its index (`Scope::Gpu`).
    pub device: u32,
    /// Who launched.
    pub thread: ThreadKey,
    /// Where: as in `Launched`.
    pub stack: StackId,
    /// How many kernels, copies or memsets.
    pub count: u64,
}

/// What the kernel tier's library told of a process until it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTier {
    /// The process.
    pub pid: u32,
    /// CUPTI's version as it says it.
    pub cupti: u32,
    /// Launches, copies and memsets that were told of.
    pub launches: u64,
    /// Kernels, copies and memsets that ran, with their times.
    pub ran: u64,
    /// Of these, those whose launch was not seen: their stack is not known.
    pub unplaced: u64,
    /// Records that CUPTI dropped.
    pub dropped: u64,
    /// Records without times.
    pub untimed: u64,
    /// Nanoseconds that the library took in the process.
    pub cost_ns: u64,
    /// Whether it said goodbye; else what ran last may be missing.
    pub whole: bool,
}
