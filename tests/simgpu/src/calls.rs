//! The calls that profilers are told of, and their numbers. Leaves out the telling.

use crate::driver::Code;
use crate::world::{self, Outcome, World};
use std::ffi::CStr;

/// A function whose calls give a device something to do. The numbers are CUPTI's (`CUpti_driver_api_trace_cbid`).
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
}

/// Runs a call under its correlation number.
pub(crate) fn called(
    _world: &World,
    _call: Call,
    _kernel: Option<&CStr>,
    run: impl FnOnce(u32) -> (Code, Vec<Outcome>),
) -> Code {
    run(world::next_correlation()).0
}
