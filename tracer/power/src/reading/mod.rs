//! Reading while the run lasts: the counters (`reader`) at random distances (`pace`), the clocks of CPUs (`cpu_clocks`) and sensors
//! (`sensors`) beside them, and before the start two drivers of
//! one counter against each other (`cross_check`).
//!
//! Leaves out what is read (`sources/`).

mod cpu_clocks;
mod cross_check;
mod pace;
mod reader;
mod sensors;

pub(super) use cpu_clocks::Clocks;
pub(super) use cross_check::CrossCheck;
pub use reader::{AtReadings, PowerEnd, PowerTask};
pub(super) use reader::{Beside, LiveReplay, OpenSource, start};
pub(super) use sensors::Sensors;
