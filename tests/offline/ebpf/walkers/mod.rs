//! The stack walkers of the BPF side, on the host: the same code over snapshots of memory.
//!
//! Leaves out what finds rows in BPF maps and drives the steps (`tracer-ebpf/src/probes`): `stacks.rs` shows these live.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails, wherever that happens")]

mod chains;
mod hostile;
mod native;
mod python;
mod snapshot;
