//! One launch, and who made it.
//!
//! Leaves out counting (`launches`) and graphs (`graphs`).

use energy_trace_bpf::decode::EventContext;
use energy_trace_model::ids::{StackId, ThreadKey};
use tracer_ebpf::gpu::call;

/// Who launches where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Launcher {
    pub(crate) thread: ThreadKey,
    pub(crate) stack: StackId,
}

/// A launch as it will be counted, but for its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) head: EventContext,
    pub(crate) call: u32,
    /// The driver's function or what can be launched; 0: not known.
    pub(crate) function: u64,
    /// The runtime's host stub; 0: none.
    pub(crate) stub: u64,
    pub(crate) amount: u64,
    pub(crate) site: u64,
    pub(crate) stream: u64,
    /// Its own stack was taken, or that of the runtime's call in which it was made.
    pub(crate) own_stack: bool,
    /// For how many it stands: of very many some are drawn.
    pub(crate) stands_for: u64,
}

/// Whether a call puts work into a graph's node.
pub(crate) const fn is_of_node(call: u32) -> bool {
    matches!(call, call::NODE_KERNEL | call::NODE_COPY | call::NODE_MEMSET | call::NODE_CHILD)
}
