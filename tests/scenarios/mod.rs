//! Worlds on a virtual clock with a known truth, shared by the tests and the accuracy benchmarks. Leaves out attribution.

pub(crate) mod cpu;
pub(crate) mod gpu;
#[allow(dead_code, reason = "each test and benchmark uses a part of it")]
pub(crate) mod traced;
#[allow(dead_code, reason = "as above")]
pub(crate) mod worlds;
