//! CPU time: who was on which CPU, for how long, and under what conditions.
//!
//! * `slices`: on-CPU slices, owned by the samples that fell into them; `tracks`: what is followed from
//!   sample to sample; `sample_distances`: how much time each sample stands for; `borders`: owners have as
//!   much; `unsampled`: time that no sample may stand for; `background`: which other processes are told
//!   apart.
//! * `on_cpus`: what lay on CPUs in each of many intervals; `occupancy`: who was on a domain's CPUs in each
//!   interval between two readings.
//! * `conditions`: hardware threads that share a core (`smt`) and clocks of CPUs (`dvfs`); `busy_cpus`: CPUs
//!   that were busy together.
//! * `cpus`: which CPUs belong to which domain.
//!
//! Leaves out what threads did between two samples (`between_samples`).

pub mod background;
pub mod borders;
pub mod busy_cpus;
pub mod compact_slices;
pub mod conditions;
pub mod cpu_time;
pub mod cpus;
pub mod dvfs;
pub mod inter_sample;
pub mod launchers;
pub mod occupancy;
pub mod on_cpus;
pub mod owners;
pub mod sample_distances;
pub mod slices;
pub mod smt;
pub mod tracks;
pub mod unsampled;
