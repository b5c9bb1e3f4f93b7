//! The stack walkers of the BPF side, on the host: the same code over snapshots of memory.
//!
//! Leaves out what finds rows in BPF maps and drives the steps (`tracer-ebpf/src/probes`): `stacks.rs` shows these live.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails, wherever that happens")]

#[path = "walkers/chains.rs"]
mod chains;
#[path = "walkers/hostile.rs"]
mod hostile;
#[path = "walkers/native.rs"]
mod native;
#[path = "walkers/python.rs"]
mod python;
#[path = "walkers/snapshot.rs"]
mod snapshot;
