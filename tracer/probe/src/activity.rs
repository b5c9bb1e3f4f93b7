//! Whether something is to be read of processes soon: a new function, a mapping, a process, a call of a GPU library.
//!
//! Leaves out what is done about it: the reader looks less often while nothing is.

use energy_trace_model::clock::KtimeNs;

/// So long after the last activity there is none.
const IDLE_NS: u64 = 1_000_000_000;

/// When there last was something to read of a process soon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    last: KtimeNs,
}

impl Activity {
    /// Active now.
    pub(super) const fn new(now: KtimeNs) -> Self {
        Self { last: now }
    }

    /// Something is to be read of a process, and more may follow.
    pub(super) fn mark_active(&mut self, at: KtimeNs) {
        self.last = self.last.max(at);
    }

    /// Whether nothing is to be read of any process soon, so that it does no harm to come late.
    pub(super) const fn is_idle(&self, now: KtimeNs) -> bool {
        now.ns_since(self.last) > IDLE_NS
    }
}
