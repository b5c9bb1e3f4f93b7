//! Initialising, devices and contexts. Leaves out device attributes but for the few that programs read first.

use super::{Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, SUCCESS, on_world};
use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, CURRENT, Context, World};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::Once;

/// `CU_CTX_SCHED_BLOCKING_SYNC`.
const BLOCKING_SYNC: c_uint = 4;

/// Opens the machine, and loads the tool that `CUDA_INJECTION64_PATH` names, once.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuInit(_flags: c_uint) -> Code {
    static INJECTED: Once = Once::new();
    let Some(world) = world::open() else { return NO_DEVICE };
    if world.visible.is_empty() {
        return NO_DEVICE;
    }
    INJECTED.call_once(inject);
    SUCCESS
}

fn inject() {
    let Ok(path) = std::env::var("CUDA_INJECTION64_PATH") else { return };
    let Ok(path) = CString::new(path) else { return };
    match crate::raw::symbol(&path, c"InitializeInjection") {
        Some(address) => {
            // SAFETY: a tool for this variable exports `int InitializeInjection(void)`, as CUPTI's documentation says.
            let start: extern "C" fn() -> c_int = unsafe { std::mem::transmute::<*mut c_void, _>(address) };
            start();
        }
        None => eprintln!("simgpu: {} has no InitializeInjection", path.to_string_lossy()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDriverGetVersion(version: Out<c_int>) -> Code {
    let Some(world) = world::open() else { return NO_DEVICE };
    version.put(world.place.scenario.cuda);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetCount(count: Out<c_int>) -> Code {
    on_world(|world| {
        count.put(c_int::try_from(world.visible.len()).unwrap_or(c_int::MAX));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGet(device: Out<c_int>, ordinal: c_int) -> Code {
    on_device(ordinal, |_, _| {
        device.put(ordinal);
        SUCCESS
    })
}

/// Runs a function on the device behind an ordinal: its place in the scenario.
fn on_device(ordinal: c_int, with: impl FnOnce(&'static World, usize) -> Code) -> Code {
    on_world(|world| match usize::try_from(ordinal).ok().and_then(|place| world.visible.get(place)) {
        Some(&device) => with(world, device),
        None => INVALID_DEVICE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetName(name: Out<c_char>, length: c_int, device: c_int) -> Code {
    on_device(device, |world, place| {
        let length = usize::try_from(length).unwrap_or(0);
        match name.put_text(length, &world.place.scenario.devices[place].name) {
            true => SUCCESS,
            false => INVALID_VALUE,
        }
    })
}

/// The sixteen bytes of the UUID that NVML prints behind `GPU-`.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) -> Code {
    on_device(device, |world, place| {
        let text = world.place.scenario.devices[place].uuid_at(place);
        let digits: String =
            text.trim_start_matches("GPU-").chars().filter(char::is_ascii_hexdigit).collect();
        let value = u128::from_str_radix(&digits, 16).unwrap_or(place as u128);
        uuid.put(value.to_be_bytes());
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) -> Code {
    simgpu_cuDeviceGetUuid(uuid, device)
}

/// The bus ID of the device at a place: the same number that NVML gives.
pub(crate) fn bus_id(place: usize) -> String {
    format!("0000:{:02X}:00.0", place + 1)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetPCIBusId(id: Out<c_char>, length: c_int, device: c_int) -> Code {
    on_device(device, |_, place| match id.put_text(usize::try_from(length).unwrap_or(0), &bus_id(place)) {
        true => SUCCESS,
        false => INVALID_VALUE,
    })
}

/// Compute capability 8.0 (attributes 75 and 76), 108 multiprocessors (16); every other attribute is 1.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) -> Code {
    on_device(device, |_, place| {
        value.put(match attribute {
            75 => 8,
            76 | 50 => 0,
            16 => 108,
            33 => c_int::try_from(place + 1).unwrap_or(0),
            _ => 1,
        });
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) -> Code {
    on_device(device, |_, _| {
        bytes.put(80 << 30);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxCreate_v2(context: Out<Handle>, flags: c_uint, device: c_int) -> Code {
    on_device(device, |world, place| {
        let number = create(world, place, flags, false);
        CURRENT.set(number);
        context.put(handle(number));
        SUCCESS
    })
}

/// As `cuCtxCreate_v2`; execution affinity changes nothing here.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxCreate_v3(
    context: Out<Handle>,
    _affinity: Handle,
    _count: c_int,
    flags: c_uint,
    device: c_int,
) -> Code {
    simgpu_cuCtxCreate_v2(context, flags, device)
}

fn create(world: &World, device: usize, flags: c_uint, primary: bool) -> u64 {
    let spin = world.place.scenario.spin && flags & BLOCKING_SYNC == 0;
    let number = world::next_number();
    world.tables().contexts.insert(number, Context { device, spin, primary });
    world.place.shared.enter(device, world.pid);
    number
}

/// The primary context of a device, which is made when it is first asked for.
pub(crate) fn primary(world: &World, device: usize) -> u64 {
    let known =
        world.tables().contexts.iter().find(|(_, c)| c.primary && c.device == device).map(|(n, _)| *n);
    known.unwrap_or_else(|| create(world, device, 0, true))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) -> Code {
    on_device(device, |world, place| {
        context.put(handle(primary(world, place)));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    on_device(device, |_, _| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) -> Code {
    on_device(device, |world, place| {
        let context = primary(world, place);
        if let Some(context) = world.tables().contexts.get_mut(&context) {
            context.spin = world.place.scenario.spin && flags & BLOCKING_SYNC == 0;
        }
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxSetCurrent(context: Handle) -> Code {
    on_world(|world| {
        let number = number(context);
        if number != 0 && !world.tables().contexts.contains_key(&number) {
            return INVALID_CONTEXT;
        }
        CURRENT.set(number);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxGetCurrent(context: Out<Handle>) -> Code {
    on_world(|_| {
        context.put(handle(CURRENT.get()));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxGetDevice(device: Out<c_int>) -> Code {
    on_world(|world| {
        let Some((_, place)) = current(world) else { return INVALID_CONTEXT };
        let ordinal = world.visible.iter().position(|&visible| visible == place).unwrap_or(0);
        device.put(c_int::try_from(ordinal).unwrap_or(0));
        SUCCESS
    })
}

/// The thread's context: whether waiting in it spins, and its device.
pub(crate) fn current(world: &World) -> Option<(bool, usize)> {
    world.tables().contexts.get(&CURRENT.get()).map(|context| (context.spin, context.device))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuCtxDestroy_v2(context: Handle) -> Code {
    on_world(|world| {
        let number = number(context);
        let mut tables = world.tables();
        if tables.contexts.remove(&number).is_none() {
            return INVALID_CONTEXT;
        }
        tables.streams.retain(|_, stream| stream.context != number);
        tables.defaults.retain(|key, _| key.0 != number);
        if CURRENT.get() == number {
            CURRENT.set(0);
        }
        SUCCESS
    })
}
