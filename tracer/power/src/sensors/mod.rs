//! What this machine says of warmth and clocks beside its energy: temperatures, the clocks of GPUs, and what slows a part down.
//!
//! To add sensors that lie in sysfs: their file here, with a function that looks for them, and its line in `IN_SYSFS`. Those of a GPU come
//! from the source of its energy (`PowerSource::sensors`), which has the device open. Leaves out when they are read (`reading/sensors.rs`)
//! and the clocks of CPUs (`reading/cpu_clocks.rs`).

mod amd_gpu;
mod cpu_temperature;
mod heat_slowdowns;

pub(super) use amd_gpu::of_cards;
use energy_trace_model::recording::record::{Sensor, SensorValue};
use std::path::Path;

/// Sensors that are read together.
pub trait SensorReader: Send {
    /// Which. Their ids are set when readers are put together.
    fn sensors(&self) -> &[Sensor];

    /// Reads all of them, in the order of `sensors`; `None` for one that cannot be read now.
    fn read(&mut self) -> Vec<Option<SensorValue>>;
}

type Find = fn(&Path) -> Option<Box<dyn SensorReader>>;

/// What is looked for below the root of sysfs.
const IN_SYSFS: [Find; 2] = [cpu_temperature::find, heat_slowdowns::find];

/// All sensors that sysfs has.
pub(super) fn in_sysfs(sysfs: &Path) -> Vec<Box<dyn SensorReader>> {
    IN_SYSFS.iter().filter_map(|find| find(sysfs)).collect()
}
