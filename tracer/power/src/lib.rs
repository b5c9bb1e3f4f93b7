//! Power sources: what this machine can say about its energy, read on one clock.
//!
//! A source turns hardware (or a file) into readings of counters; it never computes a difference. Differences, wraps and gaps are
//! those of package `counters`. `source` says what a source is, `sources/` has one file for each kind and the table of them, `set` chooses among them, `idle` measures the
//! baseline, `sensors/` has temperatures and clocks, `reading/` reads while the run lasts, `survey` tells `doctor` what there is.
//!
//! ```
//! use energy_trace_power::SourceChoice;
//!
//! assert!("powercap".parse::<SourceChoice>().is_ok());
//! ```

mod choice;
mod counter_file;
mod error;
mod idle;
mod kept_file;
mod kind;
mod meter_log;
mod plan;
mod power_file;
mod power_sum;
mod reading;
mod sensors;
mod set;
mod source;
mod sources;
pub mod survey;
mod sysfs;

pub use choice::{SourceChoiceError, source_words};
pub use error::PowerError;
pub use kind::SourceKind;
pub use meter_log::ReplayError;
pub use plan::{PowerPlan, SourceChoice};
pub use reading::{AtReadings, PowerEnd, PowerTask};
pub use sensors::SensorReader;
pub use set::{PowerSet, open};
pub use source::{Attempt, Calibrator, Extra, GpuMeters, Learned, PowerSource};
pub use sources::SOURCES;
