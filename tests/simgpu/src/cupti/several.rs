//! Subscribers beside each other: CUPTI 13.3 with a driver from r610 on, when all of them want it. Each has its own buffers, kinds and drops, by the
//! functions with `_v2` in their names; those without are refused meanwhile. From 13.4 on each may have its own clock, before that there is one.
//! Leaves out fields of one's own choice, and graphs as wholes.

use super::{
    ALONE, Code, INVALID_KIND, INVALID_PARAMETER, SUCCESS, delivery, of_client, records,
    simgpu_cuptiActivityGetNextRecord, subscribers,
};
use crate::raw::{Handle, Out, number};
use crate::world;

/// `CUPTI_ACTIVITY_ATTR_TIMESTAMP_CALLBACK`.
const CLOCK: u32 = 22;

/// Whether this CUPTI and this driver let several subscribe.
pub(super) fn is_there() -> bool {
    let scenario = world::open().map(|world| &world.place.scenario);
    let branch = |driver: &str| driver.split('.').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    scenario.is_some_and(|scenario| scenario.cupti >= 130_300 && branch(&scenario.driver) >= 610_u32)
}

/// Does something for a subscriber that is beside others, or may be.
fn of_subscriber(subscriber: Handle, run: impl FnOnce(&mut delivery::Delivery)) -> Code {
    let number = number(subscriber);
    if !subscribers().get(&number).is_some_and(|subscriber| subscriber.shares) {
        return INVALID_PARAMETER;
    }
    of_client(number, run);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityRegisterCallbacks_v2(
    subscriber: Handle,
    request: Option<delivery::OwnRequest>,
    complete: Option<delivery::OwnComplete>,
) -> Code {
    let (Some(request), Some(complete)) = (request, complete) else { return INVALID_PARAMETER };
    of_subscriber(subscriber, |client| client.set_callbacks(delivery::Callbacks::Own(request, complete)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityEnable_v2(subscriber: Handle, kind: u32, _config: Handle) -> Code {
    if !records::KINDS.contains(&kind) {
        return INVALID_KIND;
    }
    delivery::start_worker();
    of_subscriber(subscriber, |client| client.enable(kind, true))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityDisable_v2(subscriber: Handle, kind: u32, _config: Handle) -> Code {
    of_subscriber(subscriber, |client| client.enable(kind, false))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityGetNextRecord_v2(
    _subscriber: Handle,
    buffer: Handle,
    valid: usize,
    record: Out<Handle>,
) -> Code {
    simgpu_cuptiActivityGetNextRecord(buffer, valid, record)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityGetNumDroppedRecords_v2(
    subscriber: Handle,
    _context: Handle,
    _stream: u32,
    dropped: Out<usize>,
) -> Code {
    of_subscriber(subscriber, |client| dropped.put(client.take_dropped()))
}

/// Takes a clock, where there may be several; other attributes are taken and change nothing.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivitySetAttribute_v2(
    subscriber: Handle,
    attribute: u32,
    _size: Handle,
    value: Out<delivery::Clock>,
) -> Code {
    let own = world::open().is_some_and(|world| world.place.scenario.cupti >= 130_400);
    let clock = if attribute == CLOCK { value.get() } else { None };
    of_subscriber(subscriber, |client| {
        if let Some(clock) = clock.filter(|_| own) {
            client.set_clock(clock);
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiGetTimestamp_v2(subscriber: Handle, timestamp: Out<u64>) -> Code {
    let code = of_subscriber(subscriber, |client| timestamp.put(client.stamp()));
    if code != SUCCESS {
        timestamp.put(of_client(ALONE, |client| client.stamp()));
    }
    SUCCESS
}
