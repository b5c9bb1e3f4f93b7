//! The driver API: the functions of `libcuda.so.1`, each under `simgpu_` and its name, one file a subject.
//!
//! Argument lists are those of cuda.h (CUDA 12.8). Leaves out what the head of the crate says.

mod built;
mod contexts;
mod copies;
mod events;
mod graphs;
mod launches;
mod memory;
mod modules;
mod node_params;
mod streams;
mod symbols;

pub(crate) use contexts::{bus_id, current, primary};
pub(crate) use node_params::node_type;

use crate::raw::{Handle, number};
use crate::world::{self, CURRENT, Outcome, Stream, Tables, World};
use std::ffi::c_int;

/// `CUresult` (cuda.h).
pub(crate) type Code = c_int;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const LAUNCH_TIMEOUT: Code = 702;
pub(crate) const CAPTURE_UNSUPPORTED: Code = 900;

/// Runs a function on the machine, once `cuInit` has opened it.
pub(crate) fn on_world(with: impl FnOnce(&'static World) -> Code) -> Code {
    world::get().map_or(NOT_INITIALIZED, with)
}

/// The stream behind a handle: 0 and 1 are the context's default stream, 2 is the thread's own; `thread_default` makes 0 the thread's own.
pub(crate) fn stream(world: &World, handle: Handle, thread_default: bool) -> Option<u64> {
    let own = match number(handle) {
        0 => thread_default,
        1 => false,
        2 => true,
        given => return Some(given),
    };
    let context = CURRENT.get();
    let mut tables = world.tables();
    let device = tables.contexts.get(&context)?.device;
    let key = (context, if own { world::tid() } else { 0 });
    let Tables { defaults, streams, .. } = &mut *tables;
    Some(*defaults.entry(key).or_insert_with(|| {
        let stream = world::next_number();
        streams.insert(stream, Stream::new(context, device, true, !own));
        stream
    }))
}

/// What a call returns whose work went to a stream.
pub(crate) fn code(outcome: Option<&Outcome>) -> Code {
    match outcome {
        Some(Outcome::Ran(..) | Outcome::Captured(_)) => SUCCESS,
        Some(Outcome::TooLate) => LAUNCH_TIMEOUT,
        None => INVALID_HANDLE,
    }
}
