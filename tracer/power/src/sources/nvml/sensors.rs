//! Temperature, clocks and slowdowns of NVIDIA GPUs, of the devices whose energy is read.
//!
//! The limit is where the driver begins to slow a device down (`NVML_TEMPERATURE_THRESHOLD_SLOWDOWN`); the reasons are those of
//! `nvmlDeviceGetCurrentClocksThrottleReasons` (nvml.h, driver 570) that are no setting and no idleness. What a device does not answer at
//! the start is left out. Leaves out the temperature of memory and fans.

use super::Gpus;
use crate::sensors::SensorReader;
use energy_trace_model::ids::SensorId;
use energy_trace_model::recording::record::{Part, Sensor, SensorQuantity, SensorValue, Slowdown};
use energy_trace_model::units::{KiloHertz, MilliCelsius};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::sync::Arc;

const QUANTITIES: [SensorQuantity; 4] = [
    SensorQuantity::Temperature,
    SensorQuantity::Clock,
    SensorQuantity::MemoryClock,
    SensorQuantity::Slowdown,
];

/// What the devices answer; `None` where none answers anything.
pub(super) fn of(gpus: &Gpus) -> Option<Box<dyn SensorReader>> {
    let (mut sensors, mut devices) = (Vec::new(), Vec::new());
    for (gpu, domain) in gpus.gpus.iter().zip(&gpus.domains) {
        let Ok(device) = gpus.nvml.device_by_index(gpu.index) else { continue };
        let part =
            Part::Gpu(domain.name.strip_prefix("gpu-").and_then(|n| n.parse().ok()).unwrap_or(gpu.index));
        for quantity in QUANTITIES.into_iter().filter(|&quantity| ask(&device, quantity).is_ok()) {
            let limit = (quantity == SensorQuantity::Temperature).then(|| slowdown_at(&device)).flatten();
            sensors.push(Sensor { id: SensorId::default(), part, quantity, place: "NVML".to_owned(), limit });
            devices.push(gpu.index);
        }
    }
    let nvml = Arc::clone(&gpus.nvml);
    (!sensors.is_empty()).then(|| Box::new(Sensors { nvml, sensors, devices }) as Box<dyn SensorReader>)
}

struct Sensors {
    nvml: Arc<Nvml>,
    sensors: Vec<Sensor>,
    /// The index of each sensor's device.
    devices: Vec<u32>,
}

impl SensorReader for Sensors {
    fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    fn read(&mut self) -> Vec<Option<SensorValue>> {
        let value = |(sensor, &index): (&Sensor, &u32)| {
            let device = self.nvml.device_by_index(index).ok()?;
            ask(&device, sensor.quantity).ok()
        };
        self.sensors.iter().zip(&self.devices).map(value).collect()
    }
}

fn ask(device: &Device<'_>, quantity: SensorQuantity) -> Result<SensorValue, NvmlError> {
    let clock = |of| {
        device.clock_info(of).map(|mhz| SensorValue::Clock(KiloHertz::from_khz(mhz.saturating_mul(1_000))))
    };
    match quantity {
        SensorQuantity::Temperature => {
            device.temperature(TemperatureSensor::Gpu).map(|c| SensorValue::Temperature(celsius(c)))
        }
        SensorQuantity::Clock => clock(Clock::SM),
        SensorQuantity::MemoryClock => clock(Clock::Memory),
        SensorQuantity::Slowdown => {
            device.current_throttle_reasons().map(|why| SensorValue::Slowdown(slowdown(why)))
        }
        SensorQuantity::HeatSlowdowns => Err(NvmlError::NotSupported),
    }
}

fn slowdown_at(device: &Device<'_>) -> Option<MilliCelsius> {
    device.temperature_threshold(TemperatureThreshold::Slowdown).ok().map(celsius)
}

fn celsius(degrees: u32) -> MilliCelsius {
    MilliCelsius::from_mc(i32::try_from(degrees).unwrap_or(i32::MAX).saturating_mul(1_000))
}

/// The hardware's slowdown stands beside its reason, where it has one.
fn slowdown(why: ThrottleReasons) -> Slowdown {
    let heat = why.intersects(ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN);
    let power = why.intersects(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN);
    let unknown = why.contains(ThrottleReasons::HW_SLOWDOWN) && !heat && !power;
    Slowdown { heat, power, unknown }
}

#[cfg(test)]
mod tests {
    use super::{Slowdown, ThrottleReasons, slowdown};

    /// Idleness and settings slow nothing down; what the hardware does has a reason, or is said to have none.
    #[test]
    fn reasons() {
        let nothing = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(slowdown(nothing), Slowdown::default());
        let hot = ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(slowdown(hot), Slowdown { heat: true, ..Slowdown::default() });
        let capped = slowdown(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::SW_THERMAL_SLOWDOWN);
        assert_eq!(capped, Slowdown { heat: true, power: true, unknown: false });
        assert_eq!(slowdown(ThrottleReasons::HW_SLOWDOWN), Slowdown { unknown: true, ..Slowdown::default() });
    }
}
