//! What the probes on GPU libraries tell, in one definition for both sides. Part of the wire layouts.
//!
//! One program serves all functions: the cookie of its attachment says which kind of call it is (`call`) and what to make of its arguments.
//! Leaves out the names of the functions (user space knows them).

use crate::wire::EventHead;

/// Kinds of call, in the low byte of a cookie and in `GpuEvent::call`.
pub mod call {
    /// `cuLaunchKernel` and its like: function, grid and block in registers and on the stack.
    pub const LAUNCH: u32 = 1;
    /// `cuLaunchKernelEx`: a configuration, then the function.
    pub const LAUNCH_EX: u32 = 2;
    /// `cudaLaunchKernel`: a host stub, and grid and block as three words each.
    pub const STUB: u32 = 3;
    /// `cudaLaunchKernelExC`: a configuration, then the host stub.
    pub const STUB_EX: u32 = 4;
    /// `cuGraphLaunch`: a graph that can be launched, a stream.
    pub const GRAPH: u32 = 5;
    /// A copy: the third argument is bytes; see `stream_shift` for the stream.
    pub const COPY: u32 = 6;
    /// A memset: the third argument is elements, of as many bytes as the cookie's second byte says.
    pub const MEMSET: u32 = 7;
    /// `cuStreamBeginCapture_v2`: a stream.
    pub const BEGIN_CAPTURE: u32 = 8;
    /// `cuStreamEndCapture`, on return: a stream, the graph.
    pub const END_CAPTURE: u32 = 9;
    /// `cuGraphInstantiate…`, on return: what can be launched, the graph.
    pub const INSTANTIATE: u32 = 10;
    /// `cuModuleGetFunction`, on return: a `GpuName`.
    pub const NAME: u32 = 11;
    /// A synchronisation, on return; `a` is when it was called.
    pub const WAIT: u32 = 12;
    /// `cuCtxSetCurrent`: a context.
    pub const SET_CONTEXT: u32 = 13;
    /// `cuDevicePrimaryCtxRetain` or `cuCtxCreate`, on return: a context, its device's number in the process.
    pub const CONTEXT: u32 = 14;
    /// As `CONTEXT`, for the functions that take the device as their third argument.
    pub const CONTEXT_THIRD: u32 = 15;
    /// As `CONTEXT`, for the functions that take the device as their fourth argument.
    pub const CONTEXT_FOURTH: u32 = 16;
    /// `energy_trace_launched` of the library that is injected: the last launch of the thread has the correlation number `a`, and its kernel
    /// has the name of number `b`; it made the graph's node `stream`, or gave it new work (0: neither). Where no launch was seen since the last one the stack of this call is the launch's.
    pub const LAUNCHED: u32 = 17;
    /// `cuGraphAddKernelNode` and its like, on return: a node, its graph; 0: it failed. What the node does was sent at the call, as `NODE_KERNEL` or another.
    pub const ADD_NODE: u32 = 18;
    /// `cuGraphExecKernelNodeSetParams` and its like, on return: a node (0: it failed), and what can be launched whose copy of it has new work.
    pub const SET_NODE: u32 = 19;
    /// A kernel for a graph's node: function and amount as of a launch, `stream` the graph or what can be launched.
    pub const NODE_KERNEL: u32 = 20;
    /// As `NODE_KERNEL`, a copy.
    pub const NODE_COPY: u32 = 21;
    /// As `NODE_KERNEL`, a memset.
    pub const NODE_MEMSET: u32 = 22;
    /// `cuGraphCreate`, on return: a graph.
    pub const CREATE_GRAPH: u32 = 23;
    /// `cuGraphClone`, on return: a graph, the one that it is a copy of.
    pub const CLONE_GRAPH: u32 = 24;
    /// `cuGraphAddChildGraphNode`, on return: a graph, another one of which it has a copy as a node.
    pub const ADD_CHILD: u32 = 25;
    /// `cuGraphExecUpdate`, on return: what can be launched, the graph whose work it has now.
    pub const UPDATE_GRAPH: u32 = 26;
    /// A graph as a node of a graph: `a` is a copy of it, `stream` the other one.
    pub const NODE_CHILD: u32 = 27;
    /// `cuStreamBeginCaptureToGraph`: a stream, the graph that gets what is captured beside what it has.
    pub const BEGIN_CAPTURE_TO: u32 = 28;
    /// `cuKernelGetFunction`, on return: a function, the kernel of a library that it is.
    pub const SAME_KERNEL: u32 = 29;
}

/// In a cookie: a function of the runtime library, which calls the driver's.
pub const RUNTIME: u64 = 1 << 16;
/// In a cookie: the call may wait until what was launched before is done, as a copy to memory that is not pinned does.
pub const WAITS: u64 = 1 << 17;
/// In a cookie: which argument is the stream, from 1 on; 0: none (the call has no stream, or it is on the stack).
pub const STREAM_SHIFT: u32 = 20;
/// In a cookie: bytes of an element of a memset.
pub const ELEMENT_SHIFT: u32 = 8;

/// In a cookie of `ADD_NODE` and `SET_NODE`, in the place of an element's bytes: what the structure is in which the work stands. Its address is the
/// argument that `STREAM_SHIFT` says.
pub mod params {
    /// `CUDA_KERNEL_NODE_PARAMS_v1`.
    pub const KERNEL: u64 = 1;
    /// `CUDA_KERNEL_NODE_PARAMS_v2`, which may have a `CUkernel` in the place of a function.
    pub const KERNEL_2: u64 = 2;
    /// `CUDA_MEMCPY3D`.
    pub const COPY: u64 = 3;
    /// `CUDA_MEMSET_NODE_PARAMS`.
    pub const MEMSET: u64 = 4;
    /// `CUgraphNodeParams`: any of them behind a word that says which.
    pub const ANY: u64 = 5;
}

/// In `GpuEvent::flags`: a stack of this thread with the same time was sent just before.
pub const WITH_STACK: u32 = 1;
/// In `GpuEvent::flags`: a call of the runtime library.
pub const OF_RUNTIME: u32 = 2;
/// In `GpuEvent::flags`: it was called within the last call of the runtime library by this thread.
pub const NESTED: u32 = 4;
/// In `GpuEvent::flags`, with `call::LAUNCHED`: no launch of this thread was seen since the library last reported one.
pub const UNMATCHED: u32 = 8;

/// In `GpuEvent::flags`, from this bit on: for how many launches it stands, where some were drawn of many; 0: one.
pub const STANDS_FOR_SHIFT: u32 = 8;

/// A call of a GPU library. What `a` and `b` are stands with `call`; of a launch they are the function and the amount.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct GpuEvent {
    /// Kind `kind::GPU`.
    pub head: EventHead,
    /// One of `call`.
    pub call: u32,
    /// Flags.
    pub flags: u32,
    /// Of a launch: the function, the stub, or what can be launched; of a copy or memset 0.
    pub a: u64,
    /// Of a launch: GPU threads, or bytes.
    pub b: u64,
    /// Of a launch: its place in the code and on the stack, hashed.
    pub site: u64,
    /// Of a launch: its stream; with `call::LAUNCHED` a node.
    pub stream: u64,
}

/// Bytes of a kernel's name that are sent.
pub const NAME_BYTES: usize = 256;

/// The name of a function of a module.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct GpuName {
    /// Kind `kind::GPU_NAME`.
    pub head: EventHead,
    /// The function.
    pub function: u64,
    /// Its name, up to its zero.
    pub name: [u8; NAME_BYTES],
}

const _: () = {
    assert!(size_of::<GpuEvent>() == 64);
    assert!(size_of::<GpuName>() == 32 + NAME_BYTES);
};
