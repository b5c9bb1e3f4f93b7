//! Kernels of the runtime: registered by host stub and name, as nvcc's start-up code does it, and launched by stub. Leaves out symbols and textures.

use super::{Outer, driver, in_context, outer};
use crate::driver::{Code, INVALID_VALUE, SUCCESS};
use crate::raw::{Handle, Out, Text, handle};
use crate::world;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// `cudaErrorInvalidDeviceFunction`.
const INVALID_FUNCTION: Code = 98;

/// `dim3`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Dim3 {
    pub(super) x: c_uint,
    pub(super) y: c_uint,
    pub(super) z: c_uint,
}

/// `cudaLaunchConfig_t`, as far as it is read.
#[derive(Clone, Copy)]
#[repr(C)]
struct Config {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
    attributes: Handle,
    count: c_uint,
}

/// By the address of the host stub: the kernel's name, and its handle once it was looked up.
type Stubs = HashMap<usize, (CString, Option<usize>)>;

static STUBS: LazyLock<Mutex<Stubs>> = LazyLock::new(Mutex::default);

thread_local! {
    /// What `<<<…>>>` says before the stub is called.
    static CONFIGURED: RefCell<Vec<(Dim3, Dim3, usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn stubs() -> MutexGuard<'static, Stubs> {
    STUBS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaRegisterFatBinary(_image: Handle) -> Handle {
    handle(world::next_number())
}

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaRegisterFatBinaryEnd(_handle: Handle) {}

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaUnregisterFatBinary(_handle: Handle) {}

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaRegisterFunction(
    _handle: Handle,
    stub: Handle,
    _device_stub: *mut c_char,
    name: Text,
    _thread_limit: c_int,
    _more: Handle,
) {
    stubs().insert(stub.addr(), (CString::new(name.read()).unwrap_or_default(), None));
}

/// The driver's function behind a host stub, looked up at its first launch.
pub(super) fn function(stub: Handle) -> Result<Handle, Code> {
    let name = match stubs().get(&stub.addr()) {
        None => return Err(INVALID_FUNCTION),
        Some((_, Some(known))) => return Ok(handle(*known as u64)),
        Some((name, None)) => name.clone(),
    };
    let mut module = std::ptr::null_mut::<std::ffi::c_void>();
    let code = driver!(cuModuleLoadData(&raw mut module => *mut Handle, std::ptr::null_mut() => Handle));
    if code != SUCCESS {
        return Err(code);
    }
    let mut found = std::ptr::null_mut::<std::ffi::c_void>();
    match driver!(cuModuleGetFunction(&raw mut found => *mut Handle, module => Handle, name.as_ptr() => *const c_char))
    {
        SUCCESS => {
            stubs().insert(stub.addr(), (name, Some(found.addr())));
            Ok(found)
        }
        _ => Err(INVALID_FUNCTION),
    }
}

macro_rules! launch {
    ($driver:ident, $call:ident, $stub:expr, $grid:expr, $block:expr, $shared:expr, $stream:expr) => {
        in_context(|| {
            outer(Outer::$call, || match function($stub) {
                Ok(function) => driver!($driver(
                    function => Handle,
                    $grid.x => c_uint, $grid.y => c_uint, $grid.z => c_uint,
                    $block.x => c_uint, $block.y => c_uint, $block.z => c_uint,
                    c_uint::try_from($shared).unwrap_or(0) => c_uint,
                    $stream => Handle,
                    std::ptr::null_mut() => Handle,
                    std::ptr::null_mut() => Handle,
                )),
                Err(code) => code,
            })
        })
    };
}

macro_rules! launch_kernel {
    ($name:ident, $driver:ident, $call:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            stub: Handle,
            grid: Dim3,
            block: Dim3,
            _parameters: Handle,
            shared: usize,
            stream: Handle,
        ) -> Code {
            launch!($driver, $call, stub, grid, block, shared, stream)
        }
    };
}

launch_kernel!(simgpu_cudaLaunchKernel, cuLaunchKernel, LaunchKernel);
launch_kernel!(simgpu_cudaLaunchKernel_ptsz, cuLaunchKernel_ptsz, LaunchKernelPtsz);
launch_kernel!(simgpu_cudaLaunchCooperativeKernel, cuLaunchCooperativeKernel, LaunchCooperative);
launch_kernel!(
    simgpu_cudaLaunchCooperativeKernel_ptsz,
    cuLaunchCooperativeKernel_ptsz,
    LaunchCooperativePtsz
);

/// `CUlaunchConfig` as the driver reads it.
#[repr(C)]
struct DriverConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    stream: Handle,
    attributes: Handle,
    count: c_uint,
}

macro_rules! launch_configured {
    ($name:ident, $driver:ident, $call:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(config: Out<Config>, stub: Handle, _parameters: Handle) -> Code {
            let Some(config) = config.get() else { return INVALID_VALUE };
            in_context(|| {
                outer(Outer::$call, || {
                    let driver_config = DriverConfig {
                        grid: config.grid,
                        block: config.block,
                        shared_bytes: c_uint::try_from(config.shared_bytes).unwrap_or(0),
                        stream: config.stream,
                        attributes: config.attributes,
                        count: config.count,
                    };
                    match function(stub) {
                        Ok(function) => driver!($driver(
                            &raw const driver_config => *const DriverConfig,
                            function => Handle,
                            std::ptr::null_mut() => Handle,
                            std::ptr::null_mut() => Handle,
                        )),
                        Err(code) => code,
                    }
                })
            })
        }
    };
}

launch_configured!(simgpu_cudaLaunchKernelExC, cuLaunchKernelEx, LaunchKernelExC);
launch_configured!(simgpu_cudaLaunchKernelExC_ptsz, cuLaunchKernelEx_ptsz, LaunchKernelExCPtsz);

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
) -> c_uint {
    CONFIGURED.with_borrow_mut(|all| all.push((grid, block, shared, stream.addr())));
    0
}

#[unsafe(no_mangle)]
extern "C" fn simgpu___cudaPopCallConfiguration(
    grid: Out<Dim3>,
    block: Out<Dim3>,
    shared: Out<usize>,
    stream: Out<Handle>,
) -> Code {
    let last = CONFIGURED.with_borrow_mut(Vec::pop);
    let Some((last_grid, last_block, last_shared, last_stream)) = last else {
        return INVALID_VALUE;
    };
    grid.put(last_grid);
    block.put(last_block);
    shared.put(last_shared);
    stream.put(handle(last_stream as u64));
    SUCCESS
}
