//! Graphs: what is captured runs when the graph is launched, each time, one node after the other. Leaves out graphs that are built by hand
//! and updates of them (`built`), and nodes side by side.

use super::built::{copies, tell_copies};
use super::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, LAUNCH_TIMEOUT, SUCCESS, on_world, stream,
};
use crate::calls::{Call, built, called};
use crate::cupti::{self, NodeEvent, OfNode};
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, Capture, Outcome};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::{Arc, Mutex, PoisonError};

/// `cudaErrorIllegalState`.
const ILLEGAL_STATE: Code = 401;

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamBeginCapture_v2(handle: Handle, _mode: c_int) -> Code {
    on_world(|world| {
        let Some(place) = stream(world, handle, false) else { return INVALID_CONTEXT };
        let mut tables = world.tables();
        let Some(stream) = tables.streams.get_mut(&place) else { return INVALID_HANDLE };
        if stream.capture.is_some() {
            return ILLEGAL_STATE;
        }
        stream.capture = Some(Arc::new(Capture { graph: world::next_number(), nodes: Mutex::default() }));
        SUCCESS
    })
}

/// Ends the capture of a stream, and of all that were taken into it.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamEndCapture(handle_in: Handle, graph: Out<Handle>) -> Code {
    on_world(|world| {
        let Some(place) = stream(world, handle_in, false) else { return INVALID_CONTEXT };
        let mut tables = world.tables();
        let Some(capture) = tables.streams.get_mut(&place).and_then(|stream| stream.capture.take()) else {
            return ILLEGAL_STATE;
        };
        for other in tables.streams.values_mut() {
            if other.capture.as_ref().is_some_and(|also| Arc::ptr_eq(also, &capture)) {
                other.capture = None;
            }
        }
        let nodes = std::mem::take(&mut *capture.nodes.lock().unwrap_or_else(PoisonError::into_inner));
        tables.graphs.insert(capture.graph, Arc::new(nodes));
        graph.put(handle(capture.graph));
        SUCCESS
    })
}

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE` is 1.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamIsCapturing(handle: Handle, status: Out<c_int>) -> Code {
    on_world(|world| {
        let Some(place) = stream(world, handle, false) else { return INVALID_CONTEXT };
        let tables = world.tables();
        let Some(stream) = tables.streams.get(&place) else { return INVALID_HANDLE };
        status.put(c_int::from(stream.capture.is_some()));
        SUCCESS
    })
}

/// An executable graph has copies of the nodes.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphInstantiateWithFlags(
    executable: Out<Handle>,
    graph: Handle,
    _flags: c_ulonglong,
) -> Code {
    on_world(|world| {
        built(Call::GraphInstantiate, &[executable.address(), graph.addr()], || {
            let Some(nodes) = world.tables().graphs.get(&number(graph)).cloned() else {
                return INVALID_VALUE;
            };
            let (copies, own) = (copies(&nodes), world::next_number());
            tell_copies(&copies, (0, number(graph), own));
            world.tables().graphs.insert(own, Arc::new(copies));
            executable.put(handle(own));
            SUCCESS
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphInstantiate_v2(
    executable: Out<Handle>,
    graph: Handle,
    _error_node: Handle,
    _log: Handle,
    _length: usize,
) -> Code {
    simgpu_cuGraphInstantiateWithFlags(executable, graph, 0)
}

/// Instantiation parameters are not read.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphInstantiateWithParams(
    executable: Out<Handle>,
    graph: Handle,
    _params: Handle,
) -> Code {
    simgpu_cuGraphInstantiateWithFlags(executable, graph, 0)
}

/// A graph's identity is its handle's number.
fn graph_id(executable: Handle) -> u32 {
    u32::try_from(number(executable)).unwrap_or(0)
}

fn launch(call: Call, executable: Handle, handle: Handle, thread_default: bool) -> Code {
    on_world(|world| {
        let Some(nodes) = world.tables().graphs.get(&number(executable)).cloned() else {
            return INVALID_VALUE;
        };
        let Some(stream) = stream(world, handle, thread_default) else { return INVALID_CONTEXT };
        called(call, None, graph_id(executable), |correlation| {
            match world.replay(stream, &nodes, correlation) {
                Some(outcomes) => {
                    let late = outcomes.iter().any(|outcome| matches!(outcome, Outcome::TooLate));
                    (if late { LAUNCH_TIMEOUT } else { SUCCESS }, outcomes)
                }
                None => (INVALID_HANDLE, Vec::new()),
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphLaunch(executable: Handle, stream: Handle) -> Code {
    launch(Call::GraphLaunch, executable, stream, false)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphLaunch_ptsz(executable: Handle, stream: Handle) -> Code {
    launch(Call::GraphLaunchPtsz, executable, stream, true)
}

fn destroy(what: NodeEvent, of: &OfNode) -> Code {
    on_world(|world| {
        cupti::tell_node(what, of);
        match world.tables().graphs.remove(&(of.graph | of.executable)) {
            Some(_) => SUCCESS,
            None => INVALID_VALUE,
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphDestroy(graph: Handle) -> Code {
    destroy(NodeEvent::GraphDestroyed, &OfNode { graph: number(graph), ..OfNode::default() })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecDestroy(executable: Handle) -> Code {
    destroy(NodeEvent::ExecutableDestroyed, &OfNode { executable: number(executable), ..OfNode::default() })
}

/// The nodes, as many as there is room for, or their number.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) -> Code {
    on_world(|world| match world.tables().graphs.get(&number(graph)) {
        Some(all) => {
            let room = if nodes.is_null() { usize::MAX } else { count.get().unwrap_or(0) };
            for (place, node) in all.iter().enumerate().take(room) {
                nodes.put_at(place, handle(node.number));
            }
            count.put(all.len().min(room));
            SUCCESS
        }
        None => INVALID_VALUE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecGetId(executable: Handle, id: Out<c_uint>) -> Code {
    id.put(graph_id(executable));
    SUCCESS
}
