//! Streams: making them, waiting for them. Leaves out priorities and callbacks.

use super::{
    CAPTURE_UNSUPPORTED, Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, SUCCESS, current, on_world, stream,
};
use crate::clock::{now_ns, wait_until};
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, CURRENT, Stream};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamCreate(stream: Out<Handle>, flags: c_uint) -> Code {
    on_world(|world| {
        let Some((_, device)) = current(world) else { return INVALID_CONTEXT };
        let number = world::next_number();
        let new = Stream::new(CURRENT.get(), device, flags & NON_BLOCKING == 0, false);
        world.tables().streams.insert(number, new);
        stream.put(handle(number));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamCreateWithPriority(
    stream: Out<Handle>,
    flags: c_uint,
    _priority: c_int,
) -> Code {
    simgpu_cuStreamCreate(stream, flags)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamDestroy_v2(stream: Handle) -> Code {
    on_world(|world| match world.tables().streams.remove(&number(stream)) {
        Some(_) => SUCCESS,
        None => INVALID_HANDLE,
    })
}

/// Waits for all of a stream; forbidden while it is captured.
fn synchronize(handle: Handle, thread_default: bool) -> Code {
    on_world(|world| {
        let Some(number) = stream(world, handle, thread_default) else { return INVALID_CONTEXT };
        let found = world.tables().streams.get(&number).map(|s| (s.free_ns, s.context, s.capture.is_some()));
        let Some((free_ns, context, capturing)) = found else { return INVALID_HANDLE };
        if capturing {
            return CAPTURE_UNSUPPORTED;
        }
        let spin = world.tables().contexts.get(&context).is_none_or(|context| context.spin);
        wait_until(free_ns, spin);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamSynchronize(stream: Handle) -> Code {
    synchronize(stream, false)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamSynchronize_ptsz(stream: Handle) -> Code {
    synchronize(stream, true)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamQuery(handle: Handle) -> Code {
    on_world(|world| {
        let Some(number) = stream(world, handle, false) else { return INVALID_CONTEXT };
        match world.tables().streams.get(&number) {
            Some(stream) if stream.free_ns <= now_ns() => SUCCESS,
            Some(_) => NOT_READY,
            None => INVALID_HANDLE,
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxSynchronize() -> Code {
    on_world(|world| {
        let Some((spin, _)) = current(world) else { return INVALID_CONTEXT };
        let context = CURRENT.get();
        let last = {
            let tables = world.tables();
            let own = tables.streams.values().filter(|stream| stream.context == context);
            own.map(|stream| stream.free_ns).max().unwrap_or(0)
        };
        wait_until(last, spin);
        SUCCESS
    })
}

/// What follows in a stream waits for an event; an event that was recorded in a capture takes the stream into it.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuStreamWaitEvent(handle: Handle, event: Handle, _flags: c_uint) -> Code {
    on_world(|world| {
        let Some(place) = stream(world, handle, false) else { return INVALID_CONTEXT };
        let mut tables = world.tables();
        let Some(event) = tables.events.get(&number(event)).cloned() else { return INVALID_HANDLE };
        let Some(stream) = tables.streams.get_mut(&place) else { return INVALID_HANDLE };
        match event.capture.filter(|capture| Arc::strong_count(capture) > 1) {
            Some(capture) => stream.capture = Some(capture),
            None => stream.free_ns = stream.free_ns.max(event.at_ns.unwrap_or(0)),
        }
        SUCCESS
    })
}
