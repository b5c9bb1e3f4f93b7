//! Temperature, clocks, and what slows a device down. Leaves out the numbers themselves (`meter/warmth.rs`).

use super::{Asked, INVALID_ARGUMENT, Return, SUCCESS, on_device};
use crate::raw::{Handle, Out};
use std::ffi::{c_uint, c_ulonglong};

/// `nvmlClocksThrottleReasonGpuIdle` and `nvmlClocksThrottleReasonSwThermalSlowdown`.
const IDLE: c_ulonglong = 0x1;
const TOO_WARM: c_ulonglong = 0x20;

impl Asked<'_> {
    fn is_too_warm(&self) -> bool {
        self.meter.is_too_warm(&self.session.place, self.place, self.now_ns)
    }
}

/// `NVML_TEMPERATURE_GPU` (0) only.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetTemperature(
    device: Handle,
    sensor: c_uint,
    celsius: Out<c_uint>,
) -> Return {
    on_device(device, "nvmlDeviceGetTemperature", |asked| {
        if sensor != 0 {
            return INVALID_ARGUMENT;
        }
        celsius.put(asked.meter.celsius(&asked.session.place, asked.place, asked.now_ns));
        SUCCESS
    })
}

/// `NVML_TEMPERATURE_THRESHOLD_SLOWDOWN` (1) is the limit, any other one ten degrees above.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetTemperatureThreshold(
    device: Handle,
    threshold: c_uint,
    celsius: Out<c_uint>,
) -> Return {
    on_device(device, "nvmlDeviceGetTemperatureThreshold", |asked| {
        celsius.put(asked.meter.warmth.limit_c + if threshold == 1 { 0 } else { 10 });
        SUCCESS
    })
}

/// `nvmlClockType_t`: 2 is memory's.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetClockInfo(device: Handle, kind: c_uint, mhz: Out<c_uint>) -> Return {
    on_device(device, "nvmlDeviceGetClockInfo", |asked| {
        mhz.put(match kind {
            2 => asked.meter.warmth.memory_mhz,
            _ => asked.meter.clock_mhz(&asked.session.place, asked.place, asked.now_ns),
        });
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Handle,
    reasons: Out<c_ulonglong>,
) -> Return {
    on_device(device, "nvmlDeviceGetCurrentClocksThrottleReasons", |asked| {
        reasons.put(if asked.is_too_warm() { TOO_WARM } else { IDLE });
        SUCCESS
    })
}
