//! Joules per thread and stack, from a recording.
//!
//! ```
//! use energy_trace_model::{profile::Options, recording::Recording};
//!
//! let profile = energy_trace_attribution::attribute(&Recording::default(), &Options::default());
//! assert!(profile.rows.is_empty());
//! ```
//!
//! For every domain and every interval between two readings:
//!
//! ```text
//! measured = target + other + idle + uncore + residual + Σ unattributed        to the microjoule
//! ```
//!
//! 1. `timeline` (package `counters`): readings become intervals of energy; a model stands in where there is no counter.
//! 2. `time` (package `cpu-time`): on-CPU slices are cut into segments, each owned by a sample's stack; time is conserved to the
//!    nanosecond. What no sample may stand for (`unsampled`), which other processes are told apart
//!    (`background`), who was on a domain's CPUs when (`occupancy`), and under which conditions: hardware
//!    threads that share a core (`smt`), clocks (`dvfs`), other busy CPUs (`busy_cpus`). The socket is a
//!    property of the CPU, not of the process: a thread that migrates is charged on each socket for the time
//!    that it spent there.
//! 3. `delegation` (package): for whom workers work.
//! 4. `between_samples`: what threads were probably doing between two samples (`markov_bridge`,
//!    `switching_chain`).
//! 5. `power_model`: how much power each call path draws, where the run shows it (`learn`); what else power
//!    depends on, in one list (`corrections`); whether the readings contradict it (`lack_of_fit`).
//! 6. `split`: energy to owners, in integers, by time (`by_time`) or by expected time and power (`by_power`).
//! 7. `gpu`: a GPU's energy by what was launched on it.
//! 8. `uncertainty`: how sure all of that is, for `profile::certainty`.
//! 9. `charging`: one domain, from its readings to its result; `ledger`: that result, its row, what each
//!    thread and stack gets of it, and what the reader must know.
//! 10. `over_time`: the same in bins of time, where somebody asks for it.
//! 11. `attribute`: the one way in, and several recordings (`merged`); `parts`: what can be left out of it.
//!
//! Later rooms use earlier ones, and `numerics` is below all.
//!
//! # From a sample to a row
//!
//! ```text
//! Sample ─► SamplePoint ─► InterSampleSlice ─► IntervalSlice ─► ColumnWeights ─► owner ─► ProfileRow
//!           on its track   between two of      cut at each      of its call     a thread
//!                          them                reading          paths           in a stack
//! ```
//!
//! # From a reading to the ledger
//!
//! ```text
//! Reading ─► EnergyInterval ─► energy above idle ─► Shares of owners ─► DomainResult, with its LedgerRow
//! ```
//!
//! DRAM and psys are split by CPU time as packages are: DRAM by the CPUs of its socket, psys by all. A GPU's
//! energy above idle is split by what was launched on it (`gpu`); where no launches are recorded it is
//! `unattributed`. A gap adds nothing to any number, since nothing was measured.
//!
//! Pure: no files, no clock, no symbols. Names are compared (`paths`), never read. Sources: the split by CPU
//! time is that of Kepler (CLOUD 2023) and Chappie (FSE 2020), with idle apart and exact time; the
//! conservation law and the weights are explained where they stand.

mod attribute;
mod between_samples;
mod charging;
mod gpu;
mod ledger;
mod over_time;
mod parts;
mod power_model;
mod split;
mod uncertainty;

pub use attribute::{
    attribute, attribute_by_process, attribute_over_time, attribute_over_time_owned, attribute_owned,
    attribute_with_processes, attribute_without,
};
use energy_trace_counters as timeline;
use energy_trace_cpu_time::{numerics, time};
use energy_trace_delegation as delegation;
pub use parts::{LeftOut, Part};
pub use power_model::carried::CarriedPowers;

#[cfg(test)]
mod tests {
    mod certainty;
    pub(crate) mod slices;
    pub(crate) mod vectors;
}
