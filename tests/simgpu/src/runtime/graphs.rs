//! Graphs of the runtime. Leaves out what the driver's part leaves out.

use super::{driver, in_context, outer};
use crate::driver::Code;
use crate::raw::{Handle, Out};
use std::ffi::{c_int, c_ulonglong};

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamBeginCapture(stream: Handle, mode: c_int) -> Code {
    in_context(|| driver!(cuStreamBeginCapture_v2(stream => Handle, mode => c_int)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamEndCapture(stream: Handle, graph: Out<Handle>) -> Code {
    in_context(|| driver!(cuStreamEndCapture(stream => Handle, graph => Out<Handle>)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaStreamIsCapturing(stream: Handle, status: Out<c_int>) -> Code {
    in_context(|| driver!(cuStreamIsCapturing(stream => Handle, status => Out<c_int>)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphInstantiate(
    executable: Out<Handle>,
    graph: Handle,
    flags: c_ulonglong,
) -> Code {
    in_context(
        || driver!(cuGraphInstantiateWithFlags(executable => Out<Handle>, graph => Handle, flags => c_ulonglong)),
    )
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphInstantiateWithFlags(
    executable: Out<Handle>,
    graph: Handle,
    flags: c_ulonglong,
) -> Code {
    simgpu_cudaGraphInstantiate(executable, graph, flags)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphLaunch(executable: Handle, stream: Handle) -> Code {
    in_context(|| outer(|| driver!(cuGraphLaunch(executable => Handle, stream => Handle))))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphLaunch_ptsz(executable: Handle, stream: Handle) -> Code {
    in_context(|| outer(|| driver!(cuGraphLaunch_ptsz(executable => Handle, stream => Handle))))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphDestroy(graph: Handle) -> Code {
    in_context(|| driver!(cuGraphDestroy(graph => Handle)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cudaGraphExecDestroy(executable: Handle) -> Code {
    in_context(|| driver!(cuGraphExecDestroy(executable => Handle)))
}
