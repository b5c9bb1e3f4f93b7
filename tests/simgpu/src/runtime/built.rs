//! Graphs that are built by hand and changed, by the runtime. Leaves out what the driver's part leaves out, and nodes of any kind.

use super::kernels::{Dim3, function};
use super::{driver, in_context};
use crate::driver::{Code, INVALID_VALUE};
use crate::raw::{Handle, Out};
use std::ffi::{c_int, c_uint};

/// `cudaKernelNodeParams`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelParams {
    stub: Handle,
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    parameters: Handle,
    extra: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
struct DriverKernelParams {
    params: KernelParams,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMCPY3D_v2`: words, of which few are needed for a copy of one dimension.
type DriverCopyParams = [usize; 25];
/// Words in it: the types of memory, the addresses of a device, the width, height and depth.
const FROM_TYPE: usize = 4;
const FROM: usize = 6;
const TO_TYPE: usize = 15;
const TO: usize = 17;
const WIDTH: usize = 22;

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphCreate(graph: Out<Handle>, flags: c_uint) -> Code {
    in_context(|| driver!(cuGraphCreate(graph => Out<Handle>, flags => c_uint)))
}

/// The same for the driver, which knows functions and no stubs.
fn for_driver(params: &Out<KernelParams>) -> Result<DriverKernelParams, Code> {
    let params = params.get().ok_or(INVALID_VALUE)?;
    let params = KernelParams { stub: function(params.stub)?, ..params };
    Ok(DriverKernelParams { params, kernel: std::ptr::null_mut(), context: std::ptr::null_mut() })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphAddKernelNode(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Handle,
    count: usize,
    params: Out<KernelParams>,
) -> Code {
    in_context(|| match for_driver(&params) {
        Ok(params) => driver!(cuGraphAddKernelNode_v2(
            node => Out<Handle>,
            graph => Handle,
            dependencies => Handle,
            count => usize,
            &raw const params => *const DriverKernelParams,
        )),
        Err(code) => code,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphAddMemcpyNode1D(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Handle,
    count: usize,
    to: Handle,
    from: Handle,
    bytes: usize,
    kind: c_int,
) -> Code {
    in_context(|| {
        // cudaMemcpyHostToDevice is 1, DeviceToHost 2, DeviceToDevice 3; the driver's host is 1 and its device 2.
        let (from_type, to_type) = match kind {
            1 => (1, 2),
            2 => (2, 1),
            _ => (2, 2),
        };
        let mut params: DriverCopyParams = [0; 25];
        (params[FROM_TYPE], params[TO_TYPE]) = (from_type, to_type);
        (params[FROM], params[TO]) = (from.addr(), to.addr());
        (params[WIDTH], params[WIDTH + 1], params[WIDTH + 2]) = (bytes, 1, 1);
        driver!(cuGraphAddMemcpyNode(
            node => Out<Handle>,
            graph => Handle,
            dependencies => Handle,
            count => usize,
            &raw const params => *const DriverCopyParams,
            std::ptr::null_mut() => Handle,
        ))
    })
}

/// `cudaMemsetParams` and the driver's structure are the same.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphAddMemsetNode(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Handle,
    count: usize,
    params: Handle,
) -> Code {
    in_context(|| {
        driver!(cuGraphAddMemsetNode(
            node => Out<Handle>,
            graph => Handle,
            dependencies => Handle,
            count => usize,
            params => Handle,
            std::ptr::null_mut() => Handle,
        ))
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphAddChildGraphNode(
    node: Out<Handle>,
    graph: Handle,
    dependencies: Handle,
    count: usize,
    child: Handle,
) -> Code {
    in_context(|| {
        driver!(cuGraphAddChildGraphNode(
            node => Out<Handle>,
            graph => Handle,
            dependencies => Handle,
            count => usize,
            child => Handle,
        ))
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphClone(clone: Out<Handle>, graph: Handle) -> Code {
    in_context(|| driver!(cuGraphClone(clone => Out<Handle>, graph => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) -> Code {
    in_context(|| driver!(cuGraphGetNodes(graph => Handle, nodes => Out<Handle>, count => Out<usize>)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphExecKernelNodeSetParams(
    executable: Handle,
    node: Handle,
    params: Out<KernelParams>,
) -> Code {
    in_context(|| match for_driver(&params) {
        Ok(params) => driver!(cuGraphExecKernelNodeSetParams_v2(
            executable => Handle,
            node => Handle,
            &raw const params => *const DriverKernelParams,
        )),
        Err(code) => code,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphExecUpdate(executable: Handle, graph: Handle, result: Out<c_int>) -> Code {
    in_context(|| driver!(cuGraphExecUpdate_v2(executable => Handle, graph => Handle, result => Out<c_int>)))
}
