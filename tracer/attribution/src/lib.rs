//! Joules per thread and stack, from a recording.
//!
//! For every domain and every interval between two readings:
//!
//! ```text
//! measured = target + other + idle + uncore + residual + Σ unattributed        to the microjoule
//! ```
//!
//! 1. `time`: on-CPU slices are cut into segments, each owned by a sample's stack. Time is conserved to the nanosecond. `unseen`: what no
//!    sample may stand for. `background`: which other processes are told apart.
//! 2. `timeline` (its own room): readings become intervals of energy; a model stands in where there is no counter.
//! 3. `occupancy`: who was on the domain's CPUs in each interval, for how long. The socket is a property of the CPU, not of the process,
//!    so a thread that migrates is charged on each socket for the time it spent there.
//! 4. `line`, `bridge` and `chain`: what threads were probably doing between two samples; `counts`: times that agree with the number of
//!    samples; `design`: the times that this makes of each window. `behind`: how far behind the counter is on average; `late`: how late it
//!    was at each reading, where windows in which nothing ran show it; `conditions`: hardware threads that share a core
//!    (`siblings`), and clocks of CPUs (`frequency`); `company`: CPUs that draw less beside others, whoever shares what.
//! 5. `power_model`: how much power each function draws, where the run shows it; `speed`: when all drew more or less at once; `uncore`: the
//!    shared parts of a socket. `gates`: whether that may be used at all.
//!    `segments`: where a thread's mix changed; `steady`: windows in which no thread changed its function.
//! 6. `share`: idle apart, the rest split by time, in integers; `posterior`: by expected time and watts; `update`: what an interval's
//!    energy says about times; `idle`: what becomes of the baseline.
//! 7. `resampling`, `propagation` and `aliasing`: how sure all of that is (`profile::certainty`).
//! 8. `delegation`: for whom workers work, where a view asks for it.
//! 9. `rows`: what each thread and stack gets; `ledger`: the row of each domain; `doubts`: what the reader must know about it.
//!
//! DRAM and psys are split by CPU time as packages are: DRAM by the CPUs of its socket, psys by all. A GPU's energy above idle is split by
//! what was launched on it (`gpu`); where no launches are recorded it is `unattributed`. A gap adds nothing to any number, since nothing was measured.
//!
//! Pure: no files, no clock, no symbols. Names are compared (`classes`), never read. Sources: the split by CPU time is that of Kepler
//! (CLOUD 2023) and Chappie (FSE 2020), with idle apart and exact time; the conservation law and the weights are explained where they stand.

mod attribute;
mod between_samples;
mod delegation;
mod gpu;
mod ledger;
mod numerics;
mod power_model;
mod split;
mod time;
pub mod timeline;
mod uncertainty;

pub use attribute::attribute;
