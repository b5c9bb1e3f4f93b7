//! Turns calls that put work into graphs by hand into what the graphs hold: the collector's part of it, which needs frames and threads.
//!
//! Leaves out what is in which graph (`graphs`), and captures, which are launches (`calls`).

use super::{Launch, Pending, Piece, What, Work, demangled};
use crate::probe::bpf::decode::Head;
use crate::probe::collect::collector::Collector;
use tracer_ebpf::gpu::{GpuEvent, call};

/// Whether a call puts work into a graph's node.
pub(crate) fn is_of_node(call: u32) -> bool {
    matches!(call, call::NODE_KERNEL | call::NODE_COPY | call::NODE_MEMSET | call::NODE_CHILD)
}

impl Collector {
    /// A call puts work into a node; which one it is comes when the call returns.
    pub(crate) fn gpu_node(&mut self, head: Head, event: &GpuEvent) {
        let own_stack = self.take_stack(head, event);
        let GpuEvent { call, a: function, b: amount, site, stream, .. } = *event;
        if call == call::NODE_CHILD {
            self.gpu.launches.prepare(head.tid, Pending::Child(function));
            return;
        }
        let launch = Launch { head, call, function, stub: 0, amount, site, stream, own_stack };
        if self.gpu.listener.is_some() {
            self.gpu.kernels.see(launch);
        }
        let caller = self.launching(&launch);
        let frame = self.launched_frame(&launch);
        let work = Work { stack: self.out.stack_on(Some(caller.stack), frame), ..caller };
        let what = self.node_what(&launch);
        self.gpu.launches.prepare(head.tid, Pending::Piece(Piece { work, amount, caller, what }));
    }

    /// What records will say that a node did, where that is known.
    pub(crate) fn node_what(&self, launch: &Launch) -> Option<What> {
        match launch.call {
            call::NODE_COPY => Some(What::Copy),
            call::NODE_MEMSET => Some(What::Memset),
            _ => self.gpu.launches.name_of(launch).map(|name| What::Named(demangled(name))),
        }
    }
}
