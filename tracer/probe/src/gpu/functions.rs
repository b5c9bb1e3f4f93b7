//! Which functions of GPU libraries are probed, and what their cookies say.
//!
//! The driver's are those through which everything goes; the runtime's give kernels a name where the driver's cannot be seen. Names without
//! an ending and those with `_ptsz` (per-thread default stream) and `_v2` are different entries of one library. Leaves out where they lie.

use tracer_ebpf::gpu::{ELEMENT_SHIFT, RUNTIME, STREAM_SHIFT, WAITS, call, params};

/// A function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) cookie: u64,
    /// Its return is needed too.
    pub(super) returns: bool,
}

/// Names with the same cookie, without and with the ending of the per-thread default stream.
struct Group {
    names: &'static [&'static str],
    cookie: u64,
    returns: bool,
}

const fn group(names: &'static [&'static str], call: u32) -> Group {
    Group { names, cookie: call as u64, returns: false }
}

const fn returning(names: &'static [&'static str], call: u32) -> Group {
    Group { names, cookie: call as u64, returns: true }
}

const fn stream_at(argument: u64) -> u64 {
    argument << STREAM_SHIFT
}

const fn elements_of(bytes: u64) -> u64 {
    bytes << ELEMENT_SHIFT
}

/// Functions that put work into a graph, which stands in a structure; `argument` is its address.
const fn node(names: &'static [&'static str], call: u32, argument: u64, structure: u64) -> Group {
    let cookie = call as u64 | stream_at(argument) | elements_of(structure);
    Group { names, cookie, returns: true }
}

const COPY: u64 = call::COPY as u64;
const MEMSET: u64 = call::MEMSET as u64;

const DRIVER: [Group; 24] = [
    group(&["cuLaunchKernel", "cuLaunchKernel_ptsz"], call::LAUNCH),
    group(&["cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz"], call::LAUNCH),
    group(&["cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"], call::LAUNCH_EX),
    group(&["cuGraphLaunch", "cuGraphLaunch_ptsz"], call::GRAPH),
    Group {
        names: &[
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyHtoDAsync_v2_ptsz",
            "cuMemcpyDtoDAsync_v2",
            "cuMemcpyDtoDAsync_v2_ptsz",
            "cuMemcpyAsync",
            "cuMemcpyAsync_ptsz",
        ],
        cookie: COPY | stream_at(4),
        returns: false,
    },
    // To memory that is not pinned these return when the copy, and all before it, is done.
    Group {
        names: &["cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"],
        cookie: COPY | stream_at(4) | WAITS,
        returns: true,
    },
    Group { names: &["cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"], cookie: COPY | WAITS, returns: true },
    group(&["cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"], call::COPY),
    group(&["cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds", "cuMemcpy", "cuMemcpy_ptds"], call::COPY),
    Group {
        names: &["cuMemsetD8Async", "cuMemsetD8Async_ptsz"],
        cookie: MEMSET | elements_of(1) | stream_at(4),
        returns: false,
    },
    Group {
        names: &["cuMemsetD16Async", "cuMemsetD16Async_ptsz"],
        cookie: MEMSET | elements_of(2) | stream_at(4),
        returns: false,
    },
    Group {
        names: &["cuMemsetD32Async", "cuMemsetD32Async_ptsz"],
        cookie: MEMSET | elements_of(4) | stream_at(4),
        returns: false,
    },
    Group { names: &["cuMemsetD8_v2"], cookie: MEMSET | elements_of(1), returns: false },
    Group { names: &["cuMemsetD16_v2"], cookie: MEMSET | elements_of(2), returns: false },
    Group { names: &["cuMemsetD32_v2"], cookie: MEMSET | elements_of(4), returns: false },
    group(&["cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2_ptsz"], call::BEGIN_CAPTURE),
    returning(&["cuStreamEndCapture", "cuStreamEndCapture_ptsz"], call::END_CAPTURE),
    returning(
        &[
            "cuGraphInstantiateWithFlags",
            "cuGraphInstantiate_v2",
            "cuGraphInstantiateWithParams",
            "cuGraphInstantiateWithParams_ptsz",
        ],
        call::INSTANTIATE,
    ),
    returning(&["cuModuleGetFunction", "cuLibraryGetKernel"], call::NAME),
    returning(&["cuKernelGetFunction"], call::SAME_KERNEL),
    returning(
        &[
            "cuCtxSynchronize",
            "cuStreamSynchronize",
            "cuStreamSynchronize_ptsz",
            "cuEventSynchronize",
            "cuCtxSynchronize_v2",
        ],
        call::WAIT,
    ),
    group(&["cuCtxSetCurrent"], call::SET_CONTEXT),
    returning(&["cuDevicePrimaryCtxRetain"], call::CONTEXT),
    returning(&["cuCtxCreate_v2"], call::CONTEXT_THIRD),
];

/// The driver's functions that build graphs by hand and change them. Each names the version of its structure.
const GRAPHS: [Group; 16] = [
    group(&["cuStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph_ptsz"], call::BEGIN_CAPTURE_TO),
    returning(&["cuGraphCreate"], call::CREATE_GRAPH),
    returning(&["cuGraphClone"], call::CLONE_GRAPH),
    returning(&["cuGraphAddChildGraphNode"], call::ADD_CHILD),
    returning(&["cuGraphExecUpdate", "cuGraphExecUpdate_v2"], call::UPDATE_GRAPH),
    node(&["cuGraphAddKernelNode"], call::ADD_NODE, 5, params::KERNEL),
    node(&["cuGraphAddKernelNode_v2"], call::ADD_NODE, 5, params::KERNEL_2),
    node(&["cuGraphAddMemcpyNode"], call::ADD_NODE, 5, params::COPY),
    node(&["cuGraphAddMemsetNode"], call::ADD_NODE, 5, params::MEMSET),
    node(&["cuGraphAddNode"], call::ADD_NODE, 5, params::ANY),
    node(&["cuGraphAddNode_v2", "cuGraphAddNode_v3"], call::ADD_NODE, 6, params::ANY),
    node(&["cuGraphExecKernelNodeSetParams"], call::SET_NODE, 3, params::KERNEL),
    node(&["cuGraphExecKernelNodeSetParams_v2"], call::SET_NODE, 3, params::KERNEL_2),
    node(&["cuGraphExecMemcpyNodeSetParams"], call::SET_NODE, 3, params::COPY),
    node(&["cuGraphExecMemsetNodeSetParams"], call::SET_NODE, 3, params::MEMSET),
    node(&["cuGraphExecNodeSetParams"], call::SET_NODE, 3, params::ANY),
];

const RUNTIME_GROUPS: [Group; 7] = [
    group(
        &[
            "cudaLaunchKernel",
            "cudaLaunchKernel_ptsz",
            "cudaLaunchCooperativeKernel",
            "cudaLaunchCooperativeKernel_ptsz",
        ],
        call::STUB,
    ),
    group(&["cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"], call::STUB_EX),
    group(&["cudaGraphLaunch", "cudaGraphLaunch_ptsz"], call::GRAPH),
    Group {
        names: &["cudaMemcpyAsync", "cudaMemcpyAsync_ptsz"],
        cookie: COPY | stream_at(5),
        returns: false,
    },
    group(&["cudaMemcpy", "cudaMemcpy_ptds"], call::COPY),
    Group {
        names: &["cudaMemsetAsync", "cudaMemsetAsync_ptsz"],
        cookie: MEMSET | elements_of(1) | stream_at(4),
        returns: false,
    },
    Group { names: &["cudaMemset", "cudaMemset_ptds"], cookie: MEMSET | elements_of(1), returns: false },
];

/// The functions to probe in a file of this name; empty where it is no library of a GPU.
pub(super) fn functions_of(file: &str) -> Vec<Function> {
    let (groups, layer): (&[&[Group]], u64) = if file.starts_with("libcuda.so") {
        (&[&DRIVER, &GRAPHS], 0)
    } else if file.starts_with("libcudart.so") || file.starts_with("libcudart-") {
        (&[&RUNTIME_GROUPS], RUNTIME)
    } else {
        return Vec::new();
    };
    let functions = groups.iter().copied().flatten().flat_map(|group| {
        let function =
            |name: &&'static str| Function { name, cookie: group.cookie | layer, returns: group.returns };
        group.names.iter().map(function)
    });
    functions.collect()
}

#[cfg(test)]
mod tests {
    use super::functions_of;
    use std::collections::BTreeSet;
    use tracer_ebpf::gpu::{ELEMENT_SHIFT, STREAM_SHIFT, call, params};

    /// A cookie says which call it is, where the structure is and what it is, and those do not touch each other.
    #[test]
    fn cookies_of_nodes() {
        let all = functions_of("libcuda.so.1");
        let cookie = |name: &str| all.iter().find(|function| function.name == name).unwrap().cookie;
        let parts = |cookie: u64| (cookie & 0xff, cookie >> ELEMENT_SHIFT & 0xff, cookie >> STREAM_SHIFT & 7);
        assert_eq!(parts(cookie("cuGraphAddNode_v2")), (u64::from(call::ADD_NODE), params::ANY, 6));
        let set = parts(cookie("cuGraphExecKernelNodeSetParams"));
        assert_eq!(set, (u64::from(call::SET_NODE), params::KERNEL, 3));
    }

    /// Each function is probed once, the driver's and the runtime's apart; other libraries are left alone.
    #[test]
    fn functions_are_probed_once() {
        for (file, one) in [("libcuda.so.550.54", "cuLaunchKernel"), ("libcudart.so.12", "cudaLaunchKernel")]
        {
            let functions = functions_of(file);
            let names: BTreeSet<&str> = functions.iter().map(|function| function.name).collect();
            assert_eq!(names.len(), functions.len());
            assert!(names.contains(one));
        }
        assert!(
            functions_of("libcudadebugger.so.1").is_empty() && functions_of("libcublas.so.12").is_empty()
        );
    }
}
