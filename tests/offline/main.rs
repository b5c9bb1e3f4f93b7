//! Tests that need no rights and load no BPF programs; they run beside each other. One module for each room of the product.
//!
//! Leaves out what is shown on a running kernel (`tests/live`) and on a simulated GPU (`tests/gpu`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows its figures with --nocapture"
)]

mod attribution;
mod ebpf;
mod power;
mod python;
mod recording;
mod report;
mod unwind;
