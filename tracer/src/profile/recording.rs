//! A recording in memory: the records of one run, sorted into tables.
//!
//! Leaves out how it lies in a file (`file.rs`).

use super::record::{Domain, Frame, Header, Process, Reading, Sample, Slice, StackNode, Summary, Thread};
use crate::ids::DomainId;
use std::collections::BTreeMap;

/// One run, whole in memory. Ids are positions in the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The run.
    pub header: Header,
    /// Power domains, by `DomainId`.
    pub domains: Vec<Domain>,
    /// Readings of each counter domain, in time order.
    pub readings: BTreeMap<DomainId, Vec<Reading>>,
    /// Programs, by `ProcessKey`.
    pub processes: Vec<Process>,
    /// Threads, by `ThreadKey`.
    pub threads: Vec<Thread>,
    /// Frames, by `FrameId`, with the names that were found.
    pub frames: Vec<Frame>,
    /// Stacks, by `StackId`.
    pub stacks: Vec<StackNode>,
    /// On-CPU time, ordered by CPU and start.
    pub slices: Vec<Slice>,
    /// Samples, ordered by time.
    pub samples: Vec<Sample>,
    /// Counters and doubts; `None` when the recording was cut off.
    pub summary: Option<Summary>,
}
