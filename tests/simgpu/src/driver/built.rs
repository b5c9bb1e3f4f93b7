//! Graphs that are built by hand, copied and changed: nodes that calls add, child graphs, new work for an old node. Leaves out edges between
//! nodes (they run in the order in which they were added), hosts' functions, events, memory and conditions as nodes.

use super::node_params::{
    AnyParams, CHILD, COPY, CopyParams, KERNEL, KernelParams, KernelParams2, SET, SetParams, copy_work,
    kernel_work, node_type, set_work,
};
use super::{Code, INVALID_VALUE, SUCCESS, on_world};
use crate::calls::{Call, built};
use crate::cupti::{self, NodeEvent, OfNode};
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, Node, Tables, Work};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

/// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE`.
const UPDATE_FAILURE: Code = 910;
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphCreate(graph: Out<Handle>, _flags: c_uint) -> Code {
    on_world(|world| {
        let number = world::next_number();
        world.tables().graphs.insert(number, Arc::default());
        graph.put(handle(number));
        SUCCESS
    })
}

/// Adds a node to a graph; `work` says what it does, or that the caller's handles are none.
fn add(
    call: Call,
    (node, graph): (&Out<Handle>, Handle),
    work: impl FnOnce(&Tables) -> Option<Work>,
) -> Code {
    on_world(|world| {
        built(call, &[node.address(), graph.addr()], || {
            let mut tables = world.tables();
            let Some(work) = work(&tables) else { return INVALID_VALUE };
            let Some(nodes) = tables.graphs.get_mut(&number(graph)) else { return INVALID_VALUE };
            let (own, kind) = (world::next_number(), node_type(&work));
            Arc::make_mut(nodes).push(Node { work, tag: world::tag(), number: own, original: 0 });
            drop(tables);
            let of = OfNode { graph: number(graph), node: own, kind, ..OfNode::default() };
            cupti::tell_node(NodeEvent::Created, &of);
            node.put(handle(own));
            SUCCESS
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddKernelNode(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    params: Out<KernelParams>,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    add(Call::GraphAddKernelNode, (&node, graph), |tables| kernel_work(tables, &params, std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddKernelNode_v2(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    params: Out<KernelParams2>,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    add(Call::GraphAddKernelNodeV2, (&node, graph), |tables| {
        kernel_work(tables, &params.first, params.kernel)
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddMemcpyNode(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    params: Out<CopyParams>,
    _context: Handle,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    add(Call::GraphAddMemcpyNode, (&node, graph), |_| Some(copy_work(&params)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddMemsetNode(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    params: Out<SetParams>,
    _context: Handle,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    add(Call::GraphAddMemsetNode, (&node, graph), |_| Some(set_work(&params)))
}

/// A node of any kind, by the union that follows the kind.
fn add_any(call: Call, node: &Out<Handle>, graph: Handle, params: &Out<AnyParams>) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    let of_kind = (&raw const params.of_kind).cast::<u8>();
    // SAFETY: the union has room for the structure of each kind, and all bytes of it are numbers.
    unsafe {
        match params.kind {
            KERNEL => {
                let params = of_kind.cast::<KernelParams2>().read();
                add(call, (node, graph), |tables| kernel_work(tables, &params.first, params.kernel))
            }
            // CUDA_MEMCPY_NODE_PARAMS: flags, a reserved word and a context go before.
            COPY => {
                let params = of_kind.add(16).cast::<CopyParams>().read();
                add(call, (node, graph), |_| Some(copy_work(&params)))
            }
            SET => {
                let params = of_kind.cast::<SetParams>().read();
                add(call, (node, graph), |_| Some(set_work(&params)))
            }
            CHILD => add_child(call, node, graph, handle(params.of_kind[0])),
            _ => INVALID_VALUE,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddNode(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    params: Out<AnyParams>,
) -> Code {
    add_any(Call::GraphAddNode, &node, graph, &params)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddNode_v2(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _edges: Handle,
    _count: usize,
    params: Out<AnyParams>,
) -> Code {
    add_any(Call::GraphAddNodeV2, &node, graph, &params)
}

/// A graph within a graph: copies of its nodes.
fn add_child(call: Call, node: &Out<Handle>, graph: Handle, child: Handle) -> Code {
    on_world(|world| {
        built(call, &[node.address(), graph.addr()], || {
            let mut tables = world.tables();
            let Some(inner) = tables.graphs.get(&number(child)).cloned() else { return INVALID_VALUE };
            let copies = copies(&inner);
            let Some(nodes) = tables.graphs.get_mut(&number(graph)) else { return INVALID_VALUE };
            Arc::make_mut(nodes).extend(copies.iter().cloned());
            drop(tables);
            let own = world::next_number();
            let kind = CHILD.cast_unsigned();
            let of = OfNode { graph: number(graph), node: own, kind, ..OfNode::default() };
            cupti::tell_node(NodeEvent::Created, &of);
            // The copy is a graph of its own, which is the node's.
            tell_copies(&copies, (own + 1, number(child), 0));
            node.put(handle(own));
            SUCCESS
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphAddChildGraphNode(
    node: Out<Handle>,
    graph: Handle,
    _dependencies: Handle,
    _count: usize,
    child: Handle,
) -> Code {
    add_child(Call::GraphAddChildGraphNode, &node, graph, child)
}

/// The same nodes under numbers of their own.
pub(super) fn copies(nodes: &[Node]) -> Vec<Node> {
    let copy = |node: &Node| Node { number: world::next_number(), original: node.number, ..node.clone() };
    nodes.iter().map(copy).collect()
}

/// Tells of copies in a graph, of nodes of another one, for what can be launched (0: nothing).
pub(super) fn tell_copies(copies: &[Node], (graph, original_graph, executable): (u64, u64, u64)) {
    for copy in copies {
        let (node, original) = (copy.number, copy.original);
        let kind = node_type(&copy.work);
        let of = OfNode { graph, original_graph, node, original, kind, executable };
        cupti::tell_node(NodeEvent::Cloned, &of);
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphClone(clone: Out<Handle>, graph: Handle) -> Code {
    on_world(|world| {
        built(Call::GraphClone, &[clone.address(), graph.addr()], || {
            let Some(nodes) = world.tables().graphs.get(&number(graph)).cloned() else {
                return INVALID_VALUE;
            };
            let (copies, own) = (copies(&nodes), world::next_number());
            tell_copies(&copies, (own, number(graph), 0));
            world.tables().graphs.insert(own, Arc::new(copies));
            clone.put(handle(own));
            SUCCESS
        })
    })
}

/// Puts new work into the node that was made of this one.
fn set(call: Call, (executable, node): (Handle, Handle), work: impl FnOnce(&Tables) -> Option<Work>) -> Code {
    on_world(|world| {
        built(call, &[executable.addr(), node.addr()], || {
            let mut tables = world.tables();
            let Some(work) = work(&tables) else { return INVALID_VALUE };
            let Some(nodes) = tables.graphs.get_mut(&number(executable)) else { return INVALID_VALUE };
            let mut nodes = Arc::make_mut(nodes).iter_mut();
            let Some(copy) = nodes.find(|copy| copy.original == number(node)) else { return INVALID_VALUE };
            if node_type(&copy.work) != node_type(&work) {
                return INVALID_VALUE;
            }
            (copy.work, copy.tag) = (work, world::tag());
            SUCCESS
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecKernelNodeSetParams(
    executable: Handle,
    node: Handle,
    params: Out<KernelParams>,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    set(Call::GraphExecKernelNodeSetParams, (executable, node), |tables| {
        kernel_work(tables, &params, std::ptr::null_mut())
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecKernelNodeSetParams_v2(
    executable: Handle,
    node: Handle,
    params: Out<KernelParams2>,
) -> Code {
    let Some(params) = params.get() else { return INVALID_VALUE };
    set(Call::GraphExecKernelNodeSetParamsV2, (executable, node), |tables| {
        kernel_work(tables, &params.first, params.kernel)
    })
}

/// Puts the work of a graph's nodes into what can be launched, one after the other; graphs of another shape change nothing.
fn update(call: Call, executable: Handle, graph: Handle) -> Code {
    on_world(|world| {
        built(call, &[executable.addr(), graph.addr()], || {
            let mut tables = world.tables();
            let Some(new) = tables.graphs.get(&number(graph)).cloned() else { return INVALID_VALUE };
            let Some(nodes) = tables.graphs.get_mut(&number(executable)) else { return INVALID_VALUE };
            let kinds = |nodes: &[Node]| nodes.iter().map(|node| node_type(&node.work)).collect::<Vec<_>>();
            if kinds(nodes) != kinds(&new) {
                return UPDATE_FAILURE;
            }
            for (node, new) in Arc::make_mut(nodes).iter_mut().zip(new.iter()) {
                (node.work, node.tag) = (new.work.clone(), new.tag.clone());
            }
            SUCCESS
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecUpdate(
    executable: Handle,
    graph: Handle,
    _error_node: Handle,
    result: Out<c_int>,
) -> Code {
    let code = update(Call::GraphExecUpdate, executable, graph);
    result.put(c_int::from(code != SUCCESS));
    code
}

/// `CUgraphExecUpdateResultInfo` begins with the result.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: Out<c_int>) -> Code {
    let code = update(Call::GraphExecUpdateV2, executable, graph);
    result.put(c_int::from(code != SUCCESS));
    code
}
