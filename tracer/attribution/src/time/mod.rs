//! CPU time: who was on which CPU, for how long, and under what conditions.
//!
//! * `slices`: on-CPU slices, owned by the samples that fell into them; `tracks`: what is followed from
//!   sample to sample; `unsampled`: time that no sample may stand for; `background`: which other processes
//!   are told apart.
//! * `on_cpus`: what lay on CPUs in each of many intervals; `occupancy`: who was on a domain's CPUs in each
//!   interval between two readings.
//! * `conditions`: hardware threads that share a core (`smt`) and clocks of CPUs (`dvfs`); `busy_cpus`: CPUs
//!   that were busy together.
//! * `cpus`: which CPUs belong to which domain.
//!
//! Leaves out what threads did between two samples (`between_samples`).

pub(crate) mod background;
pub(crate) mod busy_cpus;
pub(crate) mod compact_slices;
pub(crate) mod conditions;
pub(crate) mod cpu_time;
pub(crate) mod cpus;
pub(crate) mod dvfs;
pub(crate) mod inter_sample;
pub(crate) mod launchers;
pub(crate) mod occupancy;
pub(crate) mod on_cpus;
pub(crate) mod owners;
pub(crate) mod slices;
pub(crate) mod smt;
pub(crate) mod tracks;
pub(crate) mod unsampled;
