//! What a graph's node is to do, as callers of the driver write it down (cuda.h, 12.8): kernels, copies, sets, and the union of all. Leaves out
//! arrays, kernels' arguments, and nodes that give a device nothing to do.

use crate::raw::{Handle, number};
use crate::world::{Tables, Work};
use std::ffi::{c_int, c_uint};

/// `CU_GRAPH_NODE_TYPE_…`.
pub(super) const KERNEL: c_int = 0;
pub(super) const COPY: c_int = 1;
pub(super) const SET: c_int = 2;
pub(super) const CHILD: c_int = 4;

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct KernelParams {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    parameters: Handle,
    extra: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`: `kernel` counts where there is no function.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct KernelParams2 {
    pub(super) first: KernelParams,
    pub(super) kernel: Handle,
    context: Handle,
}

/// One side of `CUDA_MEMCPY3D_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Side {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    /// `CU_MEMORYTYPE_…`: 1 host, 2 device.
    kind: c_uint,
    host: Handle,
    device: u64,
    array: Handle,
    reserved: Handle,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CopyParams {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS_v1`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct SetParams {
    to: u64,
    pitch: usize,
    value: c_uint,
    element_bytes: c_uint,
    width: usize,
    height: usize,
}

/// `CUgraphNodeParams`, as far as it is read: what follows depends on the kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct AnyParams {
    pub(super) kind: c_int,
    reserved: [c_int; 3],
    pub(super) of_kind: [u64; 29],
}

pub(super) fn kernel_work(tables: &Tables, params: &KernelParams, kernel: Handle) -> Option<Work> {
    let given = if params.function.is_null() { kernel } else { params.function };
    let function = tables.functions.get(&number(given)).cloned()?;
    Some(Work::Kernel { function, blocks: params.grid.iter().map(|&n| u64::from(n)).product() })
}

pub(super) fn copy_work(params: &CopyParams) -> Work {
    let kind = match (params.from.kind, params.to.kind) {
        (2, 2) => "d2d",
        (2, _) => "d2h",
        _ => "h2d",
    };
    Work::Copy { kind, bytes: (params.width * params.height.max(1) * params.depth.max(1)) as u64 }
}

pub(super) fn set_work(params: &SetParams) -> Work {
    let bytes = params.width * params.height.max(1) * params.element_bytes as usize;
    Work::Copy { kind: "memset", bytes: bytes as u64 }
}

/// The type of a node that does this.
pub(crate) fn node_type(work: &Work) -> u32 {
    let kind = match work {
        Work::Kernel { .. } => KERNEL,
        Work::Copy { kind: "memset", .. } => SET,
        Work::Copy { .. } => COPY,
    };
    kind.cast_unsigned()
}
