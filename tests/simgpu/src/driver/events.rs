//! Events: moments in a stream that others wait for. Leaves out events between processes.

use super::{Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, SUCCESS, current, on_world, stream};
use crate::clock::{now_ns, wait_until};
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, Event};
use std::ffi::c_uint;

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventCreate(event: Out<Handle>, _flags: c_uint) -> Code {
    on_world(|world| {
        let number = world::next_number();
        world.tables().events.insert(number, Event::default());
        event.put(handle(number));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventDestroy_v2(event: Handle) -> Code {
    on_world(|world| match world.tables().events.remove(&number(event)) {
        Some(_) => SUCCESS,
        None => INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventRecord(event: Handle, handle: Handle) -> Code {
    on_world(|world| {
        let Some(place) = stream(world, handle, false) else { return INVALID_CONTEXT };
        let mut tables = world.tables();
        let Some(stream) = tables.streams.get(&place) else { return INVALID_HANDLE };
        let recorded = Event { at_ns: Some(stream.free_ns.max(now_ns())), capture: stream.capture.clone() };
        match tables.events.get_mut(&number(event)) {
            Some(event) => {
                *event = recorded;
                SUCCESS
            }
            None => INVALID_HANDLE,
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventSynchronize(event: Handle) -> Code {
    on_world(|world| {
        let Some(event) = world.tables().events.get(&number(event)).cloned() else { return INVALID_HANDLE };
        let spin = current(world).map_or(world.place.scenario.spin, |(spin, _)| spin);
        wait_until(event.at_ns.unwrap_or(0), spin);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventQuery(event: Handle) -> Code {
    on_world(|world| match world.tables().events.get(&number(event)) {
        Some(event) if event.at_ns.unwrap_or(0) <= now_ns() => SUCCESS,
        Some(_) => NOT_READY,
        None => INVALID_HANDLE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) -> Code {
    on_world(|world| {
        let tables = world.tables();
        let at = |event| tables.events.get(&number(event)).and_then(|event| event.at_ns);
        let (Some(start), Some(end)) = (at(start), at(end)) else { return INVALID_HANDLE };
        if end > now_ns() {
            return NOT_READY;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the API is a float of milliseconds")]
        milliseconds.put((crate::place::seconds(end.saturating_sub(start)) * 1e3) as f32);
        SUCCESS
    })
}
