//! The runtime API: the functions of `libcudart.so.12`, each under `simgpu_` and its name. It calls the driver through `libcuda.so.1`'s own
//! symbols, as the real one does, so that a launch passes both libraries.
//!
//! Errors are the driver's numbers, which are the same for what happens here. Leaves out what the head of the crate says.

mod built;
mod devices;
mod graphs;
mod kernels;
mod streams;

use crate::cupti::{Domain, Told};
use crate::driver::{Code, INVALID_DEVICE, SUCCESS, on_world, primary};
use crate::raw::symbol;
use crate::world::{self, CURRENT, OUTER};
use std::cell::Cell;
use std::ffi::{CStr, c_uint};
use std::sync::OnceLock;

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
    /// The device that `cudaSetDevice` chose, as an ordinal.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
}

/// A function of the driver as its face exports it, found once. Its type is the caller's to get right.
pub(crate) struct Driver(&'static CStr, OnceLock<usize>);

impl Driver {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self(name, OnceLock::new())
    }

    /// Its address; 0 without a driver.
    pub(crate) fn address(&self) -> usize {
        *self.1.get_or_init(|| symbol(c"libcuda.so.1", self.0).map_or(0, |address| address.addr()))
    }
}

/// Calls a function of the driver by name: `driver!(cuInit(flags: c_uint))`. Without a driver it says "not initialised".
macro_rules! driver {
    ($name:ident ( $($value:expr => $kind:ty),* $(,)? )) => {{
        static FUNCTION: $crate::runtime::Driver = $crate::runtime::Driver::new(
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        );
        match FUNCTION.address() {
            0 => $crate::driver::NOT_INITIALIZED,
            address => {
                // SAFETY: the face exports this function of cuda.h, whose arguments are of these types.
                let function = unsafe {
                    std::mem::transmute::<usize, extern "C" fn($($kind),*) -> $crate::driver::Code>(address)
                };
                function($($value),*)
            }
        }
    }};
}
pub(crate) use driver;

/// Runs a call of the runtime that needs a context: initialises the driver and takes the primary context where there is none.
pub(crate) fn in_context(run: impl FnOnce() -> Code) -> Code {
    if CURRENT.get() == 0 {
        let wrong = match driver!(cuInit(0 => c_uint)) {
            SUCCESS => enter(DEVICE.get()),
            wrong => wrong,
        };
        if wrong != SUCCESS {
            return remember(wrong);
        }
    }
    remember(run())
}

/// Makes the primary context of an ordinal the thread's.
fn enter(ordinal: usize) -> Code {
    on_world(|world| {
        let Some(&place) = world.visible.get(ordinal) else { return INVALID_DEVICE };
        let context = primary(world, place);
        driver!(cuCtxSetCurrent(crate::raw::handle(context) => crate::raw::Handle))
    })
}

/// A call of the runtime that profilers are told of; the numbers are CUPTI's (`CUpti_runtime_api_trace_cbid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outer {
    Memcpy = 31,
    MemcpyAsync = 41,
    MemsetAsync = 51,
    LaunchKernel = 211,
    LaunchKernelPtsz = 214,
    LaunchCooperative = 269,
    LaunchCooperativePtsz = 270,
    GraphLaunch = 311,
    GraphLaunchPtsz = 312,
    LaunchKernelExC = 430,
    LaunchKernelExCPtsz = 431,
}

impl Outer {
    const fn name(self) -> &'static CStr {
        match self {
            Self::Memcpy => c"cudaMemcpy_v3020",
            Self::MemcpyAsync => c"cudaMemcpyAsync_v3020",
            Self::MemsetAsync => c"cudaMemsetAsync_v3020",
            Self::LaunchKernel => c"cudaLaunchKernel_v7000",
            Self::LaunchKernelPtsz => c"cudaLaunchKernel_ptsz_v7000",
            Self::LaunchCooperative => c"cudaLaunchCooperativeKernel_v9000",
            Self::LaunchCooperativePtsz => c"cudaLaunchCooperativeKernel_ptsz_v9000",
            Self::GraphLaunch => c"cudaGraphLaunch_v10000",
            Self::GraphLaunchPtsz => c"cudaGraphLaunch_ptsz_v10000",
            Self::LaunchKernelExC => c"cudaLaunchKernelExC_v11060",
            Self::LaunchKernelExCPtsz => c"cudaLaunchKernelExC_ptsz_v11060",
        }
    }
}

/// Runs a call under a correlation number that the driver's calls inside share, and tells of it.
pub(crate) fn outer(call: Outer, run: impl FnOnce() -> Code) -> Code {
    let before = OUTER.get();
    let correlation = world::next_correlation();
    OUTER.set(correlation);
    let function = call.name();
    let (domain, parameters) = (Domain::Runtime, &[] as &[usize]);
    let told = Told { domain, cbid: call as u32, function, symbol: None, parameters, correlation };
    let code = told.around(run);
    OUTER.set(before);
    code
}

fn remember(code: Code) -> Code {
    if code != SUCCESS {
        LAST.set(code);
    }
    code
}
