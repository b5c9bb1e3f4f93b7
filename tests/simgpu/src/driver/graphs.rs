//! Graphs: what is captured runs when the graph is launched, each time, one node after the other. Leaves out graphs that are built by hand,
//! updates of them, and nodes side by side.

use super::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, LAUNCH_TIMEOUT, SUCCESS, on_world, stream,
};
use crate::calls::{Call, called};
use crate::cupti;
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, Node, Outcome};
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
        stream.capture = Some(Arc::new(Mutex::default()));
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
        let nodes = std::mem::take(&mut *capture.lock().unwrap_or_else(PoisonError::into_inner));
        let number = world::next_number();
        tables.graphs.insert(number, Arc::new(nodes));
        graph.put(handle(number));
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
        let Some(nodes) = world.tables().graphs.get(&number(graph)).cloned() else { return INVALID_VALUE };
        let copy = |node: &Node| Node { number: world::next_number(), ..node.clone() };
        let copies: Vec<Node> = nodes.iter().map(copy).collect();
        for (node, original) in copies.iter().zip(nodes.iter()) {
            cupti::tell_node(node.number, Some(original.number));
        }
        let number = world::next_number();
        world.tables().graphs.insert(number, Arc::new(copies));
        executable.put(handle(number));
        SUCCESS
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

fn destroy(graph: Handle) -> Code {
    on_world(|world| match world.tables().graphs.remove(&number(graph)) {
        Some(_) => SUCCESS,
        None => INVALID_VALUE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphDestroy(graph: Handle) -> Code {
    destroy(graph)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphExecDestroy(executable: Handle) -> Code {
    destroy(executable)
}

/// The number of nodes; the nodes themselves are not shown.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuGraphGetNodes(graph: Handle, _nodes: Handle, count: Out<usize>) -> Code {
    on_world(|world| match world.tables().graphs.get(&number(graph)) {
        Some(nodes) => {
            count.put(nodes.len());
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
