//! Tests of the real program as root: BPF programs are loaded and real processes are sampled, so these run one at a time.
//!
//! Leaves out GPUs (`tests/gpu`).

mod attribution;
mod cli;
mod hostile;
mod power;
mod probe;
mod session;
mod symbols;
mod unwind;
