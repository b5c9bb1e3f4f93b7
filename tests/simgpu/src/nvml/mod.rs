//! NVML: the functions of `libnvidia-ml.so.1`, each under `simgpu_` and its name. What the meters say is `meter`'s.
//!
//! Argument lists and structures are those of nvml.h (driver 570). A function that is not here is missing in the face as well, as in an old
//! driver. Leaves out limits of power, MIG instances and GPM.

mod devices;
mod energy;
mod processes;
mod warmth;

use crate::clock::now_ns;
use crate::meter::{Meter, Seen};
use crate::place::Place;
use crate::raw::{Handle, Out, handle, number};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `nvmlReturn_t`.
type Return = c_uint;

const SUCCESS: Return = 0;
const UNINITIALIZED: Return = 1;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NOT_FOUND: Return = 6;
const INSUFFICIENT_SIZE: Return = 7;
const DRIVER_NOT_LOADED: Return = 9;
const GPU_IS_LOST: Return = 15;

/// What is between the first `nvmlInit` and the last `nvmlShutdown`.
struct Session {
    place: Place,
    seen: Mutex<Vec<Seen>>,
}

/// The session and its users.
static SESSION: Mutex<(u32, Option<Arc<Session>>)> = Mutex::new((0, None));

fn session() -> MutexGuard<'static, (u32, Option<Arc<Session>>)> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_session(with: impl FnOnce(&Session) -> Return) -> Return {
    let current = session().1.clone();
    current.map_or(UNINITIALIZED, |session| with(&session))
}

/// A device in a session, at the moment of a call.
struct Asked<'a> {
    session: &'a Session,
    place: usize,
    meter: &'a Meter,
    now_ns: u64,
}

/// Runs a function on the device behind a handle, unless that is lost or the device does not have the function.
fn on_device(device: Handle, name: &str, with: impl FnOnce(&Asked<'_>) -> Return) -> Return {
    in_session(|session| {
        let place = usize::try_from(number(device).wrapping_sub(1)).unwrap_or(usize::MAX);
        let Some(spec) = session.place.scenario.devices.get(place) else { return INVALID_ARGUMENT };
        let asked = Asked { session, place, meter: &spec.meter, now_ns: now_ns() };
        if spec.meter.is_lost(&session.place, asked.now_ns) {
            return GPU_IS_LOST;
        }
        if spec.meter.unsupported.iter().any(|unsupported| unsupported == name) {
            return NOT_SUPPORTED;
        }
        with(&asked)
    })
}

/// A moment of the common clock in microseconds since 1970, which is what NVML stamps with.
fn stamp_us(at_ns: u64) -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
    now.saturating_sub(now_ns()).saturating_add(at_ns) / 1000
}

/// A stamp as a moment of the common clock.
fn moment_ns(stamp_us_in: u64) -> u64 {
    let zero_us = stamp_us(0);
    stamp_us_in.saturating_sub(zero_us).saturating_mul(1000)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlInit_v2() -> Return {
    let mut session = session();
    if session.1.is_none() {
        match Place::from_env() {
            Ok(place) => {
                let seen = Mutex::new(vec![Seen::default(); place.scenario.devices.len()]);
                session.1 = Some(Arc::new(Session { place, seen }));
            }
            Err(_) => return DRIVER_NOT_LOADED,
        }
    }
    session.0 += 1;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlInitWithFlags(_flags: c_uint) -> Return {
    simgpu_nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlShutdown() -> Return {
    let mut session = session();
    if session.0 == 0 {
        return UNINITIALIZED;
    }
    session.0 -= 1;
    if session.0 == 0 {
        session.1 = None;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlErrorString(result: Return) -> *const c_char {
    let text: &CStr = match result {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        DRIVER_NOT_LOADED => c"Driver Not Loaded",
        GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlSystemGetDriverVersion(version: Out<c_char>, length: c_uint) -> Return {
    in_session(|session| put_text(&version, length, &session.place.scenario.driver))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlSystemGetCudaDriverVersion(version: Out<c_int>) -> Return {
    in_session(|session| {
        version.put(session.place.scenario.cuda);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) -> Return {
    simgpu_nvmlSystemGetCudaDriverVersion(version)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetCount_v2(count: Out<c_uint>) -> Return {
    in_session(|session| {
        count.put(c_uint::try_from(session.place.scenario.devices.len()).unwrap_or(c_uint::MAX));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Handle>) -> Return {
    in_session(|session| match session.place.scenario.devices.get(index as usize) {
        Some(_) => {
            device.put(handle(u64::from(index) + 1));
            SUCCESS
        }
        None => INVALID_ARGUMENT,
    })
}

fn put_text(place: &Out<c_char>, length: c_uint, text: &str) -> Return {
    match place.put_text(length as usize, text) {
        true => SUCCESS,
        false => INSUFFICIENT_SIZE,
    }
}
