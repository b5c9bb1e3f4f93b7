//! Energy and power: the counter, power and its limit, fields, and the driver's ring.

use super::{Asked, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Return, SUCCESS, on_device, stamp_us};
use crate::raw::{Handle, Out};
use crate::scenario::microwatts;
use std::ffi::{c_int, c_longlong, c_uint, c_ulonglong};
use std::sync::PoisonError;

/// `NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION`, `NVML_FI_DEV_POWER_AVERAGE` and `NVML_FI_DEV_POWER_INSTANT`.
const FIELD_ENERGY: c_uint = 83;
const FIELD_AVERAGE: c_uint = 185;
const FIELD_INSTANT: c_uint = 186;

/// `NVML_POWER_SCOPE_GPU` and `NVML_POWER_SCOPE_MODULE`.
const SCOPE_GPU: c_uint = 0;
const SCOPE_MODULE: c_uint = 1;

/// `nvmlValueType_t`: an unsigned int, an unsigned long long.
const VALUE_UINT: c_int = 1;
const VALUE_ULONG_LONG: c_int = 3;

/// `nvmlFieldValue_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp_us: c_longlong,
    latency_us: c_longlong,
    value_type: c_int,
    result: Return,
    value: u64,
}

/// `nvmlSample_t`.
#[repr(C)]
pub(super) struct Sample {
    timestamp_us: c_ulonglong,
    value: u64,
}

impl Asked<'_> {
    fn counter_mj(&self) -> u64 {
        let mut seen = self.session.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.meter.counter_mj(&self.session.place, self.place, self.now_ns, &mut seen[self.place])
    }

    /// A field's type and value, where the device has it.
    fn field(&self, field: c_uint, scope: c_uint) -> Option<(c_int, u64)> {
        let machine = &self.session.place;
        let meter = self.meter;
        let own = scope == if meter.module { SCOPE_MODULE } else { SCOPE_GPU };
        match field {
            FIELD_ENERGY if own && meter.counter => Some((VALUE_ULONG_LONG, self.counter_mj())),
            FIELD_INSTANT if own && meter.instant => {
                Some((VALUE_UINT, meter.instant_mw(machine, self.place, self.now_ns)))
            }
            FIELD_AVERAGE if own && meter.average_ms > 0 => {
                Some((VALUE_UINT, meter.usage_mw(machine, self.place, self.now_ns)))
            }
            _ => None,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetTotalEnergyConsumption(
    device: Handle,
    energy_mj: Out<c_ulonglong>,
) -> Return {
    on_device(device, "nvmlDeviceGetTotalEnergyConsumption", |asked| {
        if !asked.meter.counter || asked.meter.module {
            return NOT_SUPPORTED;
        }
        energy_mj.put(asked.counter_mj());
        asked.meter.take_time();
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit_mw: Out<c_uint>) -> Return {
    on_device(device, "nvmlDeviceGetEnforcedPowerLimit", |asked| {
        let Some(watts) = asked.session.place.scenario.devices[asked.place].limit_watts else {
            return NOT_SUPPORTED;
        };
        limit_mw.put(c_uint::try_from(microwatts(watts) / 1000).unwrap_or(c_uint::MAX));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetPowerUsage(device: Handle, power_mw: Out<c_uint>) -> Return {
    on_device(device, "nvmlDeviceGetPowerUsage", |asked| {
        let power = asked.meter.usage_mw(&asked.session.place, asked.place, asked.now_ns);
        power_mw.put(c_uint::try_from(power).unwrap_or(c_uint::MAX));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetFieldValues(
    device: Handle,
    count: c_int,
    values: Out<FieldValue>,
) -> Return {
    on_device(device, "nvmlDeviceGetFieldValues", |asked| {
        let Ok(count) = usize::try_from(count) else { return INVALID_ARGUMENT };
        for place in 0..count {
            let Some(given) = values.get_at(place) else { return INVALID_ARGUMENT };
            let unsupported = format!("field {}", given.field);
            let known = asked.field(given.field, given.scope);
            let answer = match known.filter(|_| !asked.meter.unsupported.contains(&unsupported)) {
                Some((value_type, value)) => FieldValue {
                    timestamp_us: i64::try_from(stamp_us(asked.now_ns)).unwrap_or(i64::MAX),
                    latency_us: 10,
                    value_type,
                    result: SUCCESS,
                    value,
                    ..given
                },
                None => FieldValue { result: NOT_SUPPORTED, ..given },
            };
            values.put_at(place, answer);
        }
        SUCCESS
    })
}

/// `NVML_TOTAL_POWER_SAMPLES` (0) only; with no room for samples, how many there may be.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetSamples(
    device: Handle,
    kind: c_uint,
    last_seen_us: c_ulonglong,
    value_type: Out<c_int>,
    count: Out<c_uint>,
    samples: Out<Sample>,
) -> Return {
    on_device(device, "nvmlDeviceGetSamples", |asked| {
        if kind != 0 || asked.meter.sample_ms == 0 {
            return NOT_SUPPORTED;
        }
        value_type.put(VALUE_UINT);
        let ring = asked.meter.ring(&asked.session.place, asked.place, asked.now_ns);
        let stamped = ring.into_iter().map(|(at_ns, mw)| (stamp_us(at_ns), mw));
        let new: Vec<(u64, u64)> = stamped.filter(|(stamp, _)| *stamp > last_seen_us).collect();
        if new.is_empty() {
            return NOT_FOUND;
        }
        if !samples.is_null() {
            let room = count.get().unwrap_or(0) as usize;
            for (place, &(timestamp_us, value)) in new.iter().take(room).enumerate() {
                samples.put_at(place, Sample { timestamp_us, value });
            }
            count.put(c_uint::try_from(new.len().min(room)).unwrap_or(0));
        } else {
            count.put(c_uint::try_from(new.len()).unwrap_or(0));
        }
        SUCCESS
    })
}
