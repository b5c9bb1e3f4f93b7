//! The BPF side without a kernel: the built object, and the stack walkers over snapshots. Leaves out loading (`tests/live/probe`).

mod contexts;
mod walkers;
