//! The kernel tier's part inside the traced program: CUDA's driver loads it by `CUDA_INJECTION64_PATH` and calls `InitializeInjection`.
//!
//! ```
//! use energy_trace_cupti::wire::{Frame, decode, encode};
//!
//! let mut sent = Vec::new();
//! encode(&Frame::Name(7, "gemm".to_owned()), &mut sent);
//! let whole = sent.len();
//! assert_eq!(decode(&sent), Ok(Some((Frame::Name(7, "gemm".to_owned()), whole))));
//! assert_eq!(decode(&sent[..3]), Ok(None)); // The rest is still to come.
//! ```
//!
//! It opens the program's own CUPTI (`cupti`), asks for records of kernels, copies and sets on `CLOCK_MONOTONIC` (`listen`), sums them up
//! for each launch (`tally`), and sends the sums ten times a second over a Unix socket (`ship`, `wire`). Nothing here is fatal to the program:
//! no panic leaves a callback, and what does not work is said over the socket and left alone. Leaves out stacks: a probe at
//! `energy_trace_launched`, which is called at the end of each launch with its correlation number, joins them.
//!
//! For `--ranges` the same library hears of the ranges that a program marks (`ranges`), without a GPU.

mod calls;
mod cupti;
mod listen;
mod names;
mod nodes;
pub mod ranges;
mod records;
mod shared;
mod ship;
pub mod tally;
pub mod wire;

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The environment variable with the path of the socket that is listened on.
pub const SOCKET: &str = "ENERGY_TRACE_CUPTI_SOCKET";
/// The environment variable with another CUPTI than the program's own.
pub const LIBRARY: &str = "ENERGY_TRACE_CUPTI_LIB";
/// The environment variable with the tool that `CUDA_INJECTION64_PATH` named before, which is started first.
pub const NEXT: &str = "ENERGY_TRACE_INJECTION_NEXT";

/// Set in a child that was forked: it has neither the threads nor, before `exec`, a GPU.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Set once begun: a tool that is chained may be this library again.
static STARTED: AtomicBool = AtomicBool::new(false);

/// What the driver calls when it is initialised. Always 1: the program goes on, whatever happens here.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guarded(|| {
        if STARTED.swap(true, Relaxed) {
            return;
        }
        start_next();
        // SAFETY: the handler stores one flag.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        if let Some(socket) = std::env::var_os(SOCKET) {
            ship::start(std::path::Path::new(&socket), listen::start);
        }
    });
    1
}

/// Where a probe hears of a launch that has just been made: its correlation number, CUPTI's number of the function, the number of the
/// kernel's name (`u32::MAX`: it has none), and that of the graph's node that it was captured as (0: it was not captured). Of a call that adds a node to a
/// graph, or gives one new work, the node's number and no name. It begins with a `nop`, which kernels emulate: a probe costs least there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn energy_trace_launched(correlation: u32, function: u32, name: u32, node: u64) {
    std::arch::naked_asm!("nop", "ret")
}

extern "C" fn forked() {
    FORKED.store(true, Relaxed);
}

/// Whether this process is a child that was forked since.
fn is_forked() -> bool {
    FORKED.load(Relaxed)
}

/// Runs something that must not unwind into CUDA's frames, which have no tables for it. After a panic it is as if it had not been there.
fn guarded(run: impl FnOnce()) {
    let quiet = catch_unwind(AssertUnwindSafe(run));
    drop(quiet);
}

/// Starts the tool that was there before.
fn start_next() {
    let Some(path) = std::env::var(NEXT).ok().and_then(|path| CString::new(path).ok()) else { return };
    // SAFETY: both texts have their zero; the user's own tool runs as it would have without us.
    let address = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return;
        }
        libc::dlsym(library, c"InitializeInjection".as_ptr())
    };
    if !address.is_null() {
        // SAFETY: a tool for `CUDA_INJECTION64_PATH` exports `int InitializeInjection(void)` (CUPTI's documentation).
        let start = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(address) };
        start();
    }
}
