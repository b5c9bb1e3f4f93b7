//! What a device is. Leaves out everything that changes.

use super::{NOT_FOUND, Return, SUCCESS, in_session, on_device, put_text};
use crate::raw::{Handle, Out, Text, handle};
use std::ffi::{c_char, c_uint};

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    legacy_id: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    id: [u8; 32],
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetHandleByUUID(uuid: Text, device: Out<Handle>) -> Return {
    let uuid = uuid.read();
    in_session(|session| {
        let devices = &session.place.scenario.devices;
        match devices.iter().enumerate().position(|(index, device)| device.uuid_at(index) == uuid) {
            Some(index) => {
                device.put(handle(index as u64 + 1));
                SUCCESS
            }
            None => NOT_FOUND,
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetName(device: Handle, name: Out<c_char>, length: c_uint) -> Return {
    on_device(device, "nvmlDeviceGetName", |asked| {
        put_text(&name, length, &asked.session.place.scenario.devices[asked.place].name)
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetUUID(device: Handle, uuid: Out<c_char>, length: c_uint) -> Return {
    on_device(device, "nvmlDeviceGetUUID", |asked| {
        put_text(&uuid, length, &asked.session.place.scenario.devices[asked.place].uuid_at(asked.place))
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetIndex(device: Handle, index: Out<c_uint>) -> Return {
    on_device(device, "nvmlDeviceGetIndex", |asked| {
        index.put(c_uint::try_from(asked.place).unwrap_or(c_uint::MAX));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetPciInfo_v3(device: Handle, info: Out<PciInfo>) -> Return {
    on_device(device, "nvmlDeviceGetPciInfo_v3", |asked| {
        let text = crate::driver::bus_id(asked.place);
        let (mut legacy_id, mut id) = ([0; 16], [0; 32]);
        legacy_id[..text.len()].copy_from_slice(text.as_bytes());
        // NVML's own form has eight digits of domain.
        id[..4].copy_from_slice(b"0000");
        id[4..4 + text.len()].copy_from_slice(text.as_bytes());
        let bus = c_uint::try_from(asked.place + 1).unwrap_or(0);
        info.put(PciInfo {
            legacy_id,
            domain: 0,
            bus,
            device: 0,
            device_id: 0x20b0_10de,
            subsystem_id: 0,
            id,
        });
        SUCCESS
    })
}

/// Whether MIG is on.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetMigMode(
    device: Handle,
    current: Out<c_uint>,
    pending: Out<c_uint>,
) -> Return {
    on_device(device, "nvmlDeviceGetMigMode", |asked| {
        current.put(c_uint::from(asked.meter.mig));
        pending.put(c_uint::from(asked.meter.mig));
        SUCCESS
    })
}

/// `nvmlGpuVirtualizationMode_t`: 0 none, 2 a virtual GPU.
#[unsafe(no_mangle)]
extern "C" fn simgpu_nvmlDeviceGetVirtualizationMode(device: Handle, mode: Out<c_uint>) -> Return {
    on_device(device, "nvmlDeviceGetVirtualizationMode", |asked| {
        mode.put(if asked.meter.vgpu { 2 } else { 0 });
        SUCCESS
    })
}
