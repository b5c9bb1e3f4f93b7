//! Tests of the real program as root: BPF programs are loaded and real processes are sampled, so these run one at a time.
//!
//! Leaves out GPUs (`tests/gpu`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows its figures with --nocapture"
)]

mod agent;
mod agent_faults;
mod agent_groups;
mod agent_image;
mod agent_prometheus;
mod agent_work;
mod attribution;
mod cli;
mod counts;
mod hostile;
mod power;
mod power_files;
mod probe;
mod range_probes;
mod ranges;
mod receivers;
mod session;
mod spans;
mod study;
mod symbols;
mod top;
mod unwind;
mod work;
