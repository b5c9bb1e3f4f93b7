//! Tests on the simulated GPU (`tests/simgpu`): the simulation itself, its meter, and both tiers of attribution by launch.
//!
//! Leaves out real GPUs (`tests/gpu_check`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows its figures with --nocapture"
)]

mod agent;
mod bad_input;
mod kernel_tier;
mod launches;
mod library;
mod meter;
mod seen;
mod shared;
mod simulation;
