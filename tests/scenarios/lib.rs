//! Worlds on a virtual clock with a known truth, shared by the tests and the accuracy benchmarks. Leaves out attribution.

#![expect(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "for tests and benchmarks of this workspace alone"
)]

pub mod cpu;
pub mod gpu;
pub mod traced;
pub mod worlds;
