//! A stand-in for `libnvidia-ml.so.1` with scripted energy.
//!
//! Built as `libnvml_sim.so`; `NVML_SIM` in the environment names the script (`script`), which is read when NVML is initialised. Has what
//! energy-trace calls and what tells devices apart; every other function is missing, as from an old driver. Leaves out everything about
//! kernels, processes and MIG instances.

pub mod script;

use script::{Device, Script};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// `nvmlReturn_t` (nvml.h).
type Return = c_uint;

const SUCCESS: Return = 0;
const UNINITIALIZED: Return = 1;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const INSUFFICIENT_SIZE: Return = 7;
const DRIVER_NOT_LOADED: Return = 9;
const GPU_IS_LOST: Return = 15;
const UNKNOWN: Return = 999;

/// What is between `nvmlInit` and the last `nvmlShutdown`.
struct Session {
    script: Script,
    started: Instant,
    users: u32,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `with` on the script and the seconds since the start.
fn in_session(with: impl FnOnce(&Script, f64) -> Return) -> Return {
    session().as_ref().map_or(UNINITIALIZED, |s| with(&s.script, s.started.elapsed().as_secs_f64()))
}

/// Runs `with` on the device behind a handle; a handle is the index plus one.
fn on_device(handle: *mut c_void, with: impl FnOnce(&Device, f64) -> Return) -> Return {
    in_session(|script, now_s| {
        let Some(device) = handle.addr().checked_sub(1).and_then(|index| script.devices.get(index)) else {
            return INVALID_ARGUMENT;
        };
        if device.lost_after_s.is_some_and(|lost| now_s >= lost) { GPU_IS_LOST } else { with(device, now_s) }
    })
}

/// # Safety
/// `out` is null or points to a writable `T`.
unsafe fn put<T>(out: *mut T, value: T) -> Return {
    if out.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: not null, and the caller says that it is writable.
    unsafe { out.write(value) };
    SUCCESS
}

/// # Safety
/// `out` is null or points to `length` writable bytes.
unsafe fn put_text(out: *mut c_char, length: c_uint, text: &str) -> Return {
    if out.is_null() {
        return INVALID_ARGUMENT;
    }
    if text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: not null, the caller says that `length` bytes are writable, and the text with its zero is not longer.
    unsafe {
        out.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        out.add(text.len()).write(0);
    }
    SUCCESS
}

/// Reads the script and starts the clock; further calls only count.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    let mut session = session();
    if let Some(session) = session.as_mut() {
        session.users += 1;
        return SUCCESS;
    }
    let Some(path) = std::env::var_os(script::VARIABLE) else { return DRIVER_NOT_LOADED };
    match script::read(path.as_ref()) {
        Ok(script) => {
            *session = Some(Session { script, started: Instant::now(), users: 1 });
            SUCCESS
        }
        Err(e) => {
            eprintln!("nvml-sim: {}: {e}", path.display());
            UNKNOWN
        }
    }
}

/// As `nvmlInit_v2`; no flag changes anything here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    nvmlInit_v2()
}

/// Ends the session with the last user.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    let mut session = session();
    let Some(current) = session.as_mut() else { return UNINITIALIZED };
    current.users -= 1;
    if current.users == 0 {
        *session = None;
    }
    SUCCESS
}

/// The name of an error, for ever valid.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: Return) -> *const c_char {
    let text = match result {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        DRIVER_NOT_LOADED => c"Driver Not Loaded",
        GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// The script's driver version.
///
/// # Safety
/// As nvml.h says: `version` points to `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> Return {
    // SAFETY: passed on as the caller gave it.
    in_session(|script, _| unsafe { put_text(version, length, &script.driver) })
}

/// Number of devices.
///
/// # Safety
/// As nvml.h says: `count` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Return {
    // SAFETY: passed on as the caller gave it.
    in_session(|script, _| unsafe {
        put(count, c_uint::try_from(script.devices.len()).unwrap_or(c_uint::MAX))
    })
}

/// The handle of a device.
///
/// # Safety
/// As nvml.h says: `handle` points to a writable handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut *mut c_void) -> Return {
    in_session(|script, _| {
        if index as usize >= script.devices.len() {
            return INVALID_ARGUMENT;
        }
        // SAFETY: passed on as the caller gave it.
        unsafe { put(handle, std::ptr::without_provenance_mut(index as usize + 1)) }
    })
}

/// The device's model.
///
/// # Safety
/// As nvml.h says: `name` points to `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(handle: *mut c_void, name: *mut c_char, length: c_uint) -> Return {
    // SAFETY: passed on as the caller gave it.
    on_device(handle, |device, _| unsafe { put_text(name, length, &device.name) })
}

/// The device's UUID.
///
/// # Safety
/// As nvml.h says: `uuid` points to `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(handle: *mut c_void, uuid: *mut c_char, length: c_uint) -> Return {
    // SAFETY: passed on as the caller gave it.
    on_device(handle, |device, _| unsafe { put_text(uuid, length, &device.uuid) })
}

/// The device's index.
///
/// # Safety
/// As nvml.h says: `index` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(handle: *mut c_void, index: *mut c_uint) -> Return {
    let place = c_uint::try_from(handle.addr().wrapping_sub(1)).unwrap_or(c_uint::MAX);
    // SAFETY: passed on as the caller gave it.
    on_device(handle, |_, _| unsafe { put(index, place) })
}

/// Millijoules since some past moment.
///
/// # Safety
/// As nvml.h says: `energy_mj` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    handle: *mut c_void,
    energy_mj: *mut c_ulonglong,
) -> Return {
    on_device(handle, |device, now_s| {
        if !device.counter {
            return NOT_SUPPORTED;
        }
        // SAFETY: passed on as the caller gave it.
        unsafe { put(energy_mj, device.energy_mj(now_s)) }
    })
}

/// Milliwatts now.
///
/// # Safety
/// As nvml.h says: `power_mw` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(handle: *mut c_void, power_mw: *mut c_uint) -> Return {
    // SAFETY: passed on as the caller gave it.
    on_device(handle, |device, now_s| unsafe { put(power_mw, device.power_mw(now_s)) })
}

/// Whether MIG is on.
///
/// # Safety
/// As nvml.h says: both point to writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: *mut c_void,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    on_device(handle, |device, _| {
        let mode = c_uint::from(device.mig);
        // SAFETY: passed on as the caller gave it.
        match unsafe { put(current, mode) } {
            // SAFETY: as above.
            SUCCESS => unsafe { put(pending, mode) },
            wrong => wrong,
        }
    })
}

/// The version of CUDA that the driver has: 12.8.
///
/// # Safety
/// As nvml.h says: `version` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> Return {
    // SAFETY: passed on as the caller gave it.
    in_session(|_, _| unsafe { put(version, 12_080) })
}
