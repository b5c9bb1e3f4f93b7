//! Processes on a device: who is there, and how busy each keeps the multiprocessors. Leaves out memory, encoders, and MIG's instances.

use super::{INSUFFICIENT_SIZE, NOT_FOUND, NOT_SUPPORTED, Return, SUCCESS, moment_ns, on_device, stamp_us};
use crate::raw::{Handle, Out};
use crate::shared::SLOT_NS;
use std::ffi::{c_uint, c_ulonglong};
use std::path::Path;

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub(super) struct Utilization {
    pid: c_uint,
    timestamp_us: c_ulonglong,
    sm: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

/// `nvmlProcessInfo_t`; without MIG its instances are all ones.
#[repr(C)]
pub(super) struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    instance: c_uint,
    compute_instance: c_uint,
}

/// One sample for each process that used the device since `last_seen_us`, over the whole slots since then, a second at most.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetProcessUtilization(
    device: Handle,
    samples: Out<Utilization>,
    count: Out<c_uint>,
    last_seen_us: c_ulonglong,
) -> Return {
    on_device(device, "nvmlDeviceGetProcessUtilization", |asked| {
        if !asked.meter.process_utilization {
            return NOT_SUPPORTED;
        }
        let shared = &asked.session.place.shared;
        let from = moment_ns(last_seen_us).max(asked.now_ns.saturating_sub(10 * SLOT_NS));
        let slots = (asked.now_ns.saturating_sub(from) / SLOT_NS).max(1);
        let to = asked.now_ns;
        let busy = shared.busy(asked.place, to.saturating_sub(slots * SLOT_NS), to);
        let active: Vec<(u32, u64)> = busy.into_iter().filter(|(_, ns)| *ns > 0).collect();
        if active.is_empty() {
            return NOT_FOUND;
        }
        let found = c_uint::try_from(active.len()).unwrap_or(0);
        let room = if samples.is_null() { 0 } else { count.get().unwrap_or(0) };
        count.put(found);
        if room < found {
            return INSUFFICIENT_SIZE;
        }
        for (place, (pid, ns)) in active.into_iter().enumerate() {
            let sm = c_uint::try_from(ns * 100 / (slots * SLOT_NS)).unwrap_or(100).min(100);
            let timestamp_us = stamp_us(to);
            samples.put_at(place, Utilization { pid, timestamp_us, sm, memory: 0, encoder: 0, decoder: 0 });
        }
        SUCCESS
    })
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub(super) struct Rates {
    gpu: c_uint,
    memory: c_uint,
}

/// How busy the device was over the last slot.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<Rates>) -> Return {
    on_device(device, "nvmlDeviceGetUtilizationRates", |asked| {
        // NVIDIA does not offer it where MIG is on.
        if asked.meter.mig {
            return NOT_SUPPORTED;
        }
        let from = asked.now_ns.saturating_sub(SLOT_NS);
        let busy = asked.session.place.shared.busy(asked.place, from, asked.now_ns);
        let ns: u64 = busy.into_iter().map(|(_, ns)| ns).sum();
        let gpu = c_uint::try_from(ns * 100 / SLOT_NS).unwrap_or(100).min(100);
        rates.put(Rates { gpu, memory: 0 });
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: Out<c_uint>,
    processes: Out<ProcessInfo>,
) -> Return {
    on_device(device, "nvmlDeviceGetComputeRunningProcesses_v3", |asked| {
        let known = asked.session.place.shared.busy(asked.place, 0, 0);
        let alive: Vec<u32> = known
            .into_iter()
            .map(|(pid, _)| pid)
            .filter(|pid| Path::new("/proc").join(pid.to_string()).exists())
            .collect();
        let found = c_uint::try_from(alive.len()).unwrap_or(0);
        let room = if processes.is_null() { 0 } else { count.get().unwrap_or(0) };
        count.put(found);
        if room < found {
            return INSUFFICIENT_SIZE;
        }
        for (place, pid) in alive.into_iter().enumerate() {
            let info = ProcessInfo { pid, memory: 1 << 30, instance: u32::MAX, compute_instance: u32::MAX };
            processes.put_at(place, info);
        }
        SUCCESS
    })
}
