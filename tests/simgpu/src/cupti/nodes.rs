//! What CUPTI tells of graphs and their nodes as they are made, copied and destroyed. Leaves out edges, and what 13.1 and later tell of new work
//! in old nodes: NVIDIA does not say what stands in that.

use super::tell;
use crate::raw::{Handle, handle};
use crate::world::CURRENT;

/// `CUPTI_CB_DOMAIN_RESOURCE`.
const RESOURCE: u32 = 3;

/// What is told, by `CUPTI_CBID_RESOURCE_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum NodeEvent {
    GraphDestroyed = 10,
    Created = 13,
    ExecutableDestroyed = 19,
    Cloned = 20,
}

/// A node, its graph, and those that it was copied from; what it is made for. Handles by their numbers, 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfNode {
    pub(crate) graph: u64,
    pub(crate) original_graph: u64,
    pub(crate) node: u64,
    pub(crate) original: u64,
    /// `CUgraphNodeType`.
    pub(crate) kind: u32,
    pub(crate) executable: u64,
}

/// `CUpti_ResourceData`.
#[repr(C)]
struct ResourceData {
    context: Handle,
    resource: Handle,
    descriptor: *const GraphData,
}

/// `CUpti_GraphData`.
#[repr(C)]
struct GraphData {
    graph: Handle,
    original_graph: Handle,
    node: Handle,
    original_node: Handle,
    node_type: u32,
    dependency: Handle,
    executable: Handle,
}

/// Tells of a node or of a graph.
pub(crate) fn tell_node(what: NodeEvent, of: &OfNode) {
    let graph = GraphData {
        graph: handle(of.graph),
        original_graph: handle(of.original_graph),
        node: handle(of.node),
        original_node: handle(of.original),
        node_type: of.kind,
        dependency: std::ptr::null_mut(),
        executable: handle(of.executable),
    };
    let resource = std::ptr::null_mut();
    let data = ResourceData { context: handle(CURRENT.get()), resource, descriptor: &raw const graph };
    tell((RESOURCE, what as u32), (&raw const data).cast());
}
