//! The calls that profilers are told of, and their numbers. The telling is `cupti`'s.

use crate::cupti::{self, Domain, NodeEvent, Told};
use crate::driver::Code;
use crate::world::{self, Outcome};
use std::ffi::CStr;

/// A function whose calls give a device something to do, or make a graph that does. The numbers are CUPTI's (`CUpti_driver_api_trace_cbid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Call {
    LaunchKernel = 307,
    LaunchKernelPtsz = 442,
    LaunchKernelEx = 652,
    LaunchKernelExPtsz = 653,
    LaunchCooperative = 477,
    LaunchCooperativePtsz = 478,
    GraphLaunch = 514,
    GraphLaunchPtsz = 515,
    CopyHtoD = 276,
    CopyDtoH = 278,
    CopyHtoDAsync = 277,
    CopyDtoHAsync = 279,
    CopyDtoDAsync = 281,
    Copy = 305,
    CopyAsync = 306,
    SetD8Async = 216,
    SetD32Async = 220,
    GraphAddKernelNode = 502,
    GraphAddMemcpyNode = 504,
    GraphAddMemsetNode = 506,
    GraphClone = 523,
    GraphAddChildGraphNode = 525,
    GraphExecKernelNodeSetParams = 538,
    GraphExecUpdate = 561,
    GraphInstantiate = 643,
    GraphAddKernelNodeV2 = 689,
    GraphExecKernelNodeSetParamsV2 = 692,
    GraphExecUpdateV2 = 696,
    GraphAddNode = 712,
    GraphAddNodeV2 = 723,
}

impl Call {
    /// Its name, as CUPTI gives it.
    const fn name(self) -> &'static CStr {
        match self {
            Self::LaunchKernel => c"cuLaunchKernel",
            Self::LaunchKernelPtsz => c"cuLaunchKernel_ptsz",
            Self::LaunchKernelEx => c"cuLaunchKernelEx",
            Self::LaunchKernelExPtsz => c"cuLaunchKernelEx_ptsz",
            Self::LaunchCooperative => c"cuLaunchCooperativeKernel",
            Self::LaunchCooperativePtsz => c"cuLaunchCooperativeKernel_ptsz",
            Self::GraphLaunch => c"cuGraphLaunch",
            Self::GraphLaunchPtsz => c"cuGraphLaunch_ptsz",
            Self::CopyHtoD => c"cuMemcpyHtoD_v2",
            Self::CopyDtoH => c"cuMemcpyDtoH_v2",
            Self::CopyHtoDAsync => c"cuMemcpyHtoDAsync_v2",
            Self::CopyDtoHAsync => c"cuMemcpyDtoHAsync_v2",
            Self::CopyDtoDAsync => c"cuMemcpyDtoDAsync_v2",
            Self::Copy => c"cuMemcpy",
            Self::CopyAsync => c"cuMemcpyAsync",
            Self::SetD8Async => c"cuMemsetD8Async",
            Self::SetD32Async => c"cuMemsetD32Async",
            Self::GraphAddKernelNode => c"cuGraphAddKernelNode",
            Self::GraphAddMemcpyNode => c"cuGraphAddMemcpyNode",
            Self::GraphAddMemsetNode => c"cuGraphAddMemsetNode",
            Self::GraphClone => c"cuGraphClone",
            Self::GraphAddChildGraphNode => c"cuGraphAddChildGraphNode",
            Self::GraphExecKernelNodeSetParams => c"cuGraphExecKernelNodeSetParams",
            Self::GraphExecUpdate => c"cuGraphExecUpdate",
            Self::GraphInstantiate => c"cuGraphInstantiateWithFlags",
            Self::GraphAddKernelNodeV2 => c"cuGraphAddKernelNode_v2",
            Self::GraphExecKernelNodeSetParamsV2 => c"cuGraphExecKernelNodeSetParams_v2",
            Self::GraphExecUpdateV2 => c"cuGraphExecUpdate_v2",
            Self::GraphAddNode => c"cuGraphAddNode",
            Self::GraphAddNodeV2 => c"cuGraphAddNode_v2",
        }
    }
}

/// Runs a call under its correlation number, tells of it, and records what it made the device do; `graph` is the graph that it launches, or 0.
pub(crate) fn called(
    call: Call,
    kernel: Option<&CStr>,
    graph: u32,
    run: impl FnOnce(u32) -> (Code, Vec<Outcome>),
) -> Code {
    let correlation = world::next_correlation();
    let told = Told {
        domain: Domain::Driver,
        cbid: call as u32,
        function: call.name(),
        symbol: kernel,
        parameters: &[],
        correlation,
    };
    told.around(|| {
        let (code, outcomes) = run(correlation);
        for outcome in &outcomes {
            if let Outcome::Captured(node) = outcome {
                cupti::tell_node(NodeEvent::Created, node);
            }
        }
        cupti::record(graph, &outcomes);
        code
    })
}

/// Runs a call that gives no device anything to do, with the arguments that it was given, and tells of it.
pub(crate) fn built(call: Call, parameters: &[usize], run: impl FnOnce() -> Code) -> Code {
    let told = Told {
        domain: Domain::Driver,
        cbid: call as u32,
        function: call.name(),
        symbol: None,
        parameters,
        correlation: world::next_correlation(),
    };
    told.around(run)
}
