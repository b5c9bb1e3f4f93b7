//! What is simulated: devices, their meters, and what each kernel costs. A JSON file, which `Scenario` is the form of:
//!
//! ```json
//! { "devices": [ { "meter": "A100", "idle_watts": 60 } ],
//!   "kernels": { "gemm": { "us": 300, "watts": 250 }, "relu": { "us": 20, "watts": 90, "spread": 0.2, "share": 0.5 } } }
//! ```
//!
//! Leaves out how the meters work (`meter`) and when kernels run (`shared`).

use crate::meter::Meter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernels of `tests/workloads/gpu_*`: name, microseconds, watts above idle.
pub const WORKLOADS: [(&str, f64, f64); 7] = [
    ("gemm", 300.0, 300.0),
    ("relu", 40.0, 90.0),
    ("gemm_grad", 500.0, 340.0),
    ("adam", 120.0, 150.0),
    ("tiny", 5.0, 60.0),
    ("matmul", 400.0, 320.0),
    ("softmax", 150.0, 110.0),
];

/// The whole of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The driver's version.
    #[serde(default = "default_driver")]
    pub driver: String,
    /// The version of CUDA that the driver says it has: 1000 × major + 10 × minor.
    #[serde(default = "default_cuda")]
    pub cuda: i32,
    /// The version that CUPTI says it has. From 130300 on, with a driver from 610 on, it takes several subscribers.
    #[serde(default = "default_cupti")]
    pub cupti: u32,
    /// Whether waiting for the device burns a CPU (CUDA's default) or sleeps.
    #[serde(default = "default_true")]
    pub spin: bool,
    /// The seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// Launches that a stream takes before the next one waits; CUDA's own number is 1,024.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// The devices, by index.
    pub devices: Vec<Device>,
    /// What the kernels cost, by name; a kernel that is not here is not found in any module.
    #[serde(default)]
    pub kernels: BTreeMap<String, Kernel>,
}

/// One device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its model.
    #[serde(default = "default_name")]
    pub name: String,
    /// Its UUID as NVML prints it; left out, it is made of the index.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Power while nothing runs, in watts.
    #[serde(default = "default_idle")]
    pub idle_watts: f64,
    /// Watts on top from the first context on, to the end: clocks rise when a program opens the device.
    #[serde(default)]
    pub context_watts: f64,
    /// Its power limit in watts, if NVML says it; nothing is slowed down by it.
    #[serde(default)]
    pub limit_watts: Option<f64>,
    /// Copies from the host.
    #[serde(default = "Copy::pcie")]
    pub h2d: Copy,
    /// Copies to the host.
    #[serde(default = "Copy::pcie")]
    pub d2h: Copy,
    /// Copies on the device.
    #[serde(default = "Copy::memory")]
    pub d2d: Copy,
    /// Setting memory.
    #[serde(default = "Copy::memory")]
    pub memset: Copy,
    /// What NVML says of it.
    #[serde(default, deserialize_with = "crate::meter::deserialize")]
    pub meter: Meter,
}

/// What moving bytes costs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// Gigabytes (10⁹ bytes) a second.
    pub gb_s: f64,
    /// Watts above idle while it lasts.
    pub watts: f64,
}

/// What one launch of a kernel costs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Mean duration in microseconds.
    pub us: f64,
    /// Microseconds for each block of the grid, on top.
    #[serde(default)]
    pub us_per_block: f64,
    /// Watts above idle while it runs.
    pub watts: f64,
    /// Durations are even between (1 − spread) and (1 + spread) times the mean; 0 is constant, below 1.
    #[serde(default)]
    pub spread: f64,
    /// The share of the device's multiprocessors that it fills; kernels run side by side as long as the sum is at most 1.
    #[serde(default = "default_share")]
    pub share: f64,
}

impl Copy {
    const fn pcie() -> Self {
        Self { gb_s: 25.0, watts: 25.0 }
    }

    const fn memory() -> Self {
        Self { gb_s: 1_500.0, watts: 120.0 }
    }

    /// How long so many bytes take, with a microsecond to start.
    pub fn duration_ns(&self, bytes: u64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2⁵³")]
        let bytes = bytes as f64;
        1_000 + whole(bytes / self.gb_s.max(1e-3))
    }
}

impl Kernel {
    /// The mean duration for a grid of so many blocks, times a factor between 1 − spread and 1 + spread that `unit` (0 to 1) draws.
    pub fn duration_ns(&self, blocks: u64, unit: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "grids are far below 2⁵³")]
        let mean_us = self.us + self.us_per_block * blocks as f64;
        let spread = self.spread.clamp(0.0, 0.999);
        whole(mean_us * 1_000.0 * (1.0 + spread * (2.0 * unit - 1.0))).max(1)
    }
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: default_name(),
            uuid: None,
            idle_watts: default_idle(),
            context_watts: 0.0,
            limit_watts: None,
            h2d: Copy::pcie(),
            d2h: Copy::pcie(),
            d2d: Copy::memory(),
            memset: Copy::memory(),
            meter: Meter::default(),
        }
    }
}

impl Device {
    /// The UUID of the device at this index.
    pub fn uuid_at(&self, index: usize) -> String {
        self.uuid.clone().unwrap_or_else(|| format!("GPU-51349000-0000-4000-8000-{index:012x}"))
    }
}

impl Scenario {
    /// One device with this meter, and these kernels: name, microseconds, watts above idle.
    pub fn new(meter: Meter, kernels: &[(&str, f64, f64)]) -> Self {
        let kernel = |&(name, us, watts): &(&str, f64, f64)| {
            (name.to_owned(), Kernel { us, us_per_block: 0.0, watts, spread: 0.0, share: default_share() })
        };
        Self {
            driver: default_driver(),
            cuda: default_cuda(),
            cupti: default_cupti(),
            spin: true,
            seed: 0,
            queue: default_queue(),
            devices: vec![Device { meter, ..Device::default() }],
            kernels: kernels.iter().map(kernel).collect(),
        }
    }
}

/// A power as integer microwatts.
pub fn microwatts(watts: f64) -> u64 {
    whole(watts * 1e6)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
pub(crate) const fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn default_driver() -> String {
    "570.86.15".to_owned()
}

const fn default_cuda() -> i32 {
    12_080
}

const fn default_cupti() -> u32 {
    130_000
}

const fn default_true() -> bool {
    true
}

const fn default_queue() -> usize {
    1024
}

fn default_name() -> String {
    "Simulated GPU".to_owned()
}

const fn default_idle() -> f64 {
    60.0
}

const fn default_share() -> f64 {
    1.0
}
