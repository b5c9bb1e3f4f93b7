//! Launching kernels. Leaves out their parameters, clusters, and launches from the device.

use super::{Code, INVALID_CONTEXT, INVALID_HANDLE, code, on_world, stream};
use crate::calls::{Call, called};
use crate::raw::{Handle, Out, number};
use crate::world::Work;
use std::ffi::c_uint;

/// `CUlaunchConfig`, as far as it is read.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: Handle,
    count: c_uint,
}

fn launch(call: Call, function: Handle, grid: [c_uint; 3], handle: Handle, thread_default: bool) -> Code {
    on_world(|world| {
        let Some(function) = world.tables().functions.get(&number(function)).cloned() else {
            return INVALID_HANDLE;
        };
        let Some(stream) = stream(world, handle, thread_default) else { return INVALID_CONTEXT };
        let blocks = grid.iter().map(|&n| u64::from(n)).product();
        let name = function.c_name.clone();
        called(world, call, Some(&name), |correlation| {
            let outcome = world.submit(stream, Work::Kernel { function, blocks }, correlation);
            (code(outcome.as_ref()), outcome.into_iter().collect())
        })
    })
}

macro_rules! launch_kernel {
    ($name:ident, $call:ident, $thread_default:literal) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            _block_x: c_uint,
            _block_y: c_uint,
            _block_z: c_uint,
            _shared_bytes: c_uint,
            stream: Handle,
            _parameters: Handle,
            _extra: Handle,
        ) -> Code {
            launch(Call::$call, function, [grid_x, grid_y, grid_z], stream, $thread_default)
        }
    };
}

launch_kernel!(simgpu_cuLaunchKernel, LaunchKernel, false);
launch_kernel!(simgpu_cuLaunchKernel_ptsz, LaunchKernelPtsz, true);
launch_kernel!(simgpu_cuLaunchCooperativeKernel, LaunchCooperative, false);
launch_kernel!(simgpu_cuLaunchCooperativeKernel_ptsz, LaunchCooperativePtsz, true);

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuLaunchKernelEx(
    config: Out<LaunchConfig>,
    function: Handle,
    _parameters: Handle,
    _extra: Handle,
) -> Code {
    let Some(config) = config.get() else { return super::INVALID_VALUE };
    launch(Call::LaunchKernelEx, function, config.grid, config.stream, false)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuLaunchKernelEx_ptsz(
    config: Out<LaunchConfig>,
    function: Handle,
    _parameters: Handle,
    _extra: Handle,
) -> Code {
    let Some(config) = config.get() else { return super::INVALID_VALUE };
    launch(Call::LaunchKernelExPtsz, function, config.grid, config.stream, true)
}
