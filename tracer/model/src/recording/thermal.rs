//! How warm the machine was, how fast GPUs' clocks ran, and what slowed it down, as its sensors told. Part of what a recording holds (`record`).
//!
//! A sensor's value stands until its next one: what is read and has not moved is not written. Leaves out the clocks of CPUs, which are older
//! (`frequencies.rs`), and what warmth means for power.

use crate::clock::KtimeNs;
use crate::ids::SensorId;
use crate::units::{KiloHertz, MilliCelsius};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A sensor that is read while the recording goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sensor {
    /// Its number in this recording.
    pub id: SensorId,
    /// What it belongs to.
    pub part: Part,
    /// What it tells.
    pub quantity: SensorQuantity,
    /// Where it is, as its driver names it: `coretemp Package id 0`.
    pub place: String,
    /// The temperature at which the part slows down, where the sensor says so.
    pub limit: Option<MilliCelsius>,
}

impl Sensor {
    /// Whether this is that sensor of the same machine, whatever its number.
    pub fn is_the_same(&self, other: &Self) -> bool {
        (self.part, self.quantity, &self.place) == (other.part, other.quantity, &other.place)
    }
}

/// A part of the machine that is warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// The processor of a socket.
    Cpu(u32),
    /// A GPU, by the number in its domain's name.
    Gpu(u32),
    /// Somewhere in the machine.
    Machine,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(socket) => write!(f, "cpu-{socket}"),
            Self::Gpu(number) => write!(f, "gpu-{number}"),
            Self::Machine => f.write_str("machine"),
        }
    }
}

/// What a sensor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SensorQuantity {
    /// How warm it is.
    Temperature,
    /// How fast the part computes.
    Clock,
    /// How fast its memory runs.
    MemoryClock,
    /// Whether it is slowed down, and by what.
    Slowdown,
    /// How often it was slowed down by heat since the machine started.
    HeatSlowdowns,
}

/// What a sensor said at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SensorValue {
    /// How warm it is.
    Temperature(MilliCelsius),
    /// How fast a clock runs.
    Clock(KiloHertz),
    /// What slows the part down.
    Slowdown(Slowdown),
    /// How often something happened.
    Count(u64),
}

/// What slows a part down; nothing where all are false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowdown {
    /// It is too warm.
    pub heat: bool,
    /// It draws as much power as it may.
    pub power: bool,
    /// The hardware slows it down and does not say why.
    pub unknown: bool,
}

/// What has moved at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensorReadings {
    /// When.
    pub at: KtimeNs,
    /// Each sensor's value; `None`: it could not be read, and nothing is known until its next value.
    pub of: Vec<(SensorId, Option<SensorValue>)>,
}

/// What reading the sensors took, told at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensorCost {
    /// How often all were read.
    pub rounds: u64,
    /// Values that could not be read.
    pub failed: u64,
    /// CPU time of the thread that reads, in nanoseconds.
    pub cpu_ns: u64,
}

/// A sensor and what it said, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorSeries {
    /// Which.
    pub sensor: Sensor,
    /// Its values: each stands until the next; `None`: not known.
    pub values: Vec<(KtimeNs, Option<SensorValue>)>,
}
