//! Worlds on a virtual clock with a known truth, shared by the tests and the accuracy benchmarks. Leaves out attribution.

pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod worlds;
