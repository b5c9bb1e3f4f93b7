//! The stack walkers of the BPF side, on the host: the same code over snapshots of memory.
//!
//! Leaves out what finds rows in BPF maps and drives the steps (`tracer-ebpf/src/probes`): `stacks.rs` shows these live.

mod chains;
mod hostile;
mod hotspot;
mod native;
mod python;
mod scan;
mod snapshot;
mod v8;
