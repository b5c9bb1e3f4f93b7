//! CPU time by owner, and the numerics that it shares with attribution.
//!
//! `time` cuts on-CPU slices into pieces of samples, and says who was on a domain's CPUs when and under which conditions; `numerics` is linear
//! algebra and what runs on several threads.
//!
//! ```
//! use energy_trace_cpu_time::numerics::shares::predicted;
//!
//! // Two seconds at 5 W and one at 3 W.
//! assert_eq!(predicted(&[(0, 2.0), (1, 1.0)], &[5.0, 3.0]), 13.0);
//! ```
//!
//! Pure: no files, no clock. Leaves out energy (package `attribution`).

pub mod numerics;
pub mod time;

use energy_trace_counters as timeline;

#[cfg(test)]
mod tests;
