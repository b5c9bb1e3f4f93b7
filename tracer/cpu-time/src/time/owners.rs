//! Who owns time on CPUs: the target's threads in their stacks, and others.
//!
//! Leaves out how it is found out (`slices`).

use crate::timeline::Span;
use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
use std::collections::HashMap;

/// Position in `CpuTime::owners`.
pub type OwnerId = u32;

/// All who are not the target, but for those that are told apart.
pub const OTHER: OwnerId = 0;

/// Who owns time on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Other processes and the kernel's own threads, together.
    Other,
    /// One of them, or several of one kind, told apart from the others.
    Background(u32),
    /// A thread of the target in a stack; `None` where no sample saw it.
    Target(ThreadKey, Option<StackId>),
}

/// One owner and what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerTime {
    /// Who.
    pub owner: Owner,
    /// CPU time in nanoseconds.
    pub time_ns: u64,
    /// How many samples.
    pub samples: u64,
}

/// A stretch on one CPU that belongs to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where.
    pub cpu: CpuId,
    /// When.
    pub span: Span,
    /// Whose.
    pub owner: OwnerId,
}

/// Owners by number, and numbers by owner.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) list: Vec<OwnerTime>,
    numbers: HashMap<Owner, OwnerId>,
}

impl Owners {
    pub(super) fn new() -> Self {
        let other = OwnerTime { owner: Owner::Other, time_ns: 0, samples: 0 };
        Self { list: vec![other], numbers: [(Owner::Other, OTHER)].into() }
    }

    pub(super) fn number(&mut self, owner: Owner) -> OwnerId {
        *self.numbers.entry(owner).or_insert_with(|| {
            self.list.push(OwnerTime { owner, time_ns: 0, samples: 0 });
            u32::try_from(self.list.len() - 1).unwrap_or(OTHER)
        })
    }

    /// Counts a sample of an owner.
    pub(super) fn count(&mut self, owner: OwnerId) {
        self.list[owner as usize].samples += 1;
    }

    /// Gives an owner a time.
    pub(super) fn segment(&mut self, cpu: CpuId, span: Span, owner: OwnerId) -> Segment {
        let time = &mut self.list[owner as usize].time_ns;
        *time = time.saturating_add(span.ns());
        Segment { cpu, span, owner }
    }
}
