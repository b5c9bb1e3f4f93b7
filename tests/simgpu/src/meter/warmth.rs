//! How warm a device is and how fast its clocks run: warm by what it drew in the last second, slower above its limit. No board's data.
//!
//! Leaves out NVML's functions (`nvml/warmth.rs`).

use super::Meter;
use crate::place::Place;
use serde::{Deserialize, Serialize};

/// What the device would be without work, and how it warms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Warmth {
    /// The air, in degrees Celsius.
    pub air_c: f64,
    /// Degrees for each watt.
    pub kelvin_per_w: f64,
    /// From here on the device slows down.
    pub limit_c: u32,
    /// The clock below the limit, in megahertz; above it is two thirds of that.
    pub clock_mhz: u32,
    /// The clock of its memory.
    pub memory_mhz: u32,
}

impl Default for Warmth {
    fn default() -> Self {
        Self { air_c: 25.0, kelvin_per_w: 0.2, limit_c: 90, clock_mhz: 1_410, memory_mhz: 1_215 }
    }
}

impl Meter {
    /// Whole degrees.
    pub fn celsius(&self, place: &Place, device: usize, now_ns: u64) -> u32 {
        let until_ns = now_ns.saturating_sub(place.shared.start_ns());
        let watts = self.mean_mw(place, device, 1_000, until_ns) as f64 / 1000.0;
        u32::try_from(crate::scenario::whole(self.warmth.air_c + self.warmth.kelvin_per_w * watts))
            .unwrap_or(0)
    }

    /// Whether it is slowed down by heat.
    pub fn is_too_warm(&self, place: &Place, device: usize, now_ns: u64) -> bool {
        self.celsius(place, device, now_ns) >= self.warmth.limit_c
    }

    /// The clock in megahertz.
    pub fn clock_mhz(&self, place: &Place, device: usize, now_ns: u64) -> u32 {
        match self.is_too_warm(place, device, now_ns) {
            true => self.warmth.clock_mhz / 3 * 2,
            false => self.warmth.clock_mhz,
        }
    }
}
