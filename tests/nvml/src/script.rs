//! The script: which devices there are, and their power over time.
//!
//! ```json
//! { "driver": "570.86.15",
//!   "devices": [ { "name": "NVIDIA H200", "uuid": "GPU-1", "watts": [[0, 75], [2, 600], [5, 75]], "step_ms": 100 } ] }
//! ```

use serde::{Deserialize, Serialize};
use std::path::Path;

/// The environment variable with the script's path.
pub const VARIABLE: &str = "NVML_SIM";

/// What hardware the library shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The driver's version.
    #[serde(default = "default_driver")]
    pub driver: String,
    /// The devices, by index.
    pub devices: Vec<Device>,
}

/// One device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its model.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Power over time: (seconds after NVML was initialised, watts), each until the next.
    pub watts: Vec<(f64, f64)>,
    /// Time between two steps of the counter in milliseconds; 0: it moves all the time.
    #[serde(default = "default_step")]
    pub step_ms: u32,
    /// The counter when NVML is initialised, in millijoules.
    #[serde(default)]
    pub start_mj: u64,
    /// Whether it has an energy counter; without one it says "not supported".
    #[serde(default = "default_true")]
    pub counter: bool,
    /// Whether MIG is on.
    #[serde(default)]
    pub mig: bool,
    /// From this time on every call says "GPU is lost".
    #[serde(default)]
    pub lost_after_s: Option<f64>,
}

fn default_driver() -> String {
    "570.86.15".to_owned()
}

const fn default_step() -> u32 {
    100
}

const fn default_true() -> bool {
    true
}

impl Device {
    /// A device of constant power, with a counter that steps every 100 ms.
    pub fn constant(index: u32, watts: f64) -> Self {
        Self {
            name: "NVIDIA Simulated".to_owned(),
            uuid: format!("GPU-00000000-0000-0000-0000-{index:012}"),
            watts: vec![(0.0, watts)],
            step_ms: default_step(),
            start_mj: 0,
            counter: true,
            mig: false,
            lost_after_s: None,
        }
    }

    /// The counter at a time, in millijoules: all energy up to its last step.
    pub fn energy_mj(&self, now_s: f64) -> u64 {
        let step_s = f64::from(self.step_ms) / 1000.0;
        let until_s = if step_s > 0.0 { (now_s / step_s).floor() * step_s } else { now_s };
        let ends = self.watts.iter().skip(1).map(|p| p.0).chain([f64::INFINITY]);
        let parts = self.watts.iter().zip(ends);
        let joules: f64 = parts.map(|(&(from, watts), to)| watts * (to.min(until_s) - from).max(0.0)).sum();
        self.start_mj.saturating_add(whole(joules * 1000.0))
    }

    /// The power at a time, in milliwatts.
    pub fn power_mw(&self, now_s: f64) -> u32 {
        let watts = self.watts.iter().rev().find(|p| p.0 <= now_s).map_or(0.0, |p| p.1);
        u32::try_from(whole(watts * 1000.0)).unwrap_or(u32::MAX)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
const fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// Reads a script.
///
/// # Errors
/// When it cannot be read or is not such a script.
pub fn read(path: &Path) -> Result<Script, Box<dyn std::error::Error>> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::Device;

    /// Energy is the integral of the curve up to the last step, and power is the curve.
    #[test]
    fn curve() {
        let device =
            Device { watts: vec![(0.0, 75.0), (2.0, 600.0), (3.0, 75.0)], ..Device::constant(0, 0.0) };
        assert_eq!(device.energy_mj(0.09), 0);
        assert_eq!(device.energy_mj(1.05), 75_000);
        assert_eq!(device.energy_mj(4.0), 75_000 * 2 + 600_000 + 75_000);
        assert_eq!((device.power_mw(2.5), device.power_mw(9.0)), (600_000, 75_000));
    }
}
