//! Walkers of `tests/offline` whose stacks are no processor's, with no crate besides: `cargo xtask test` runs them as another processor's code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../tests/offline/ebpf/walkers/chains.rs"]
mod chains;
#[path = "../../tests/offline/ebpf/walkers/python.rs"]
mod python;
#[path = "../../tests/offline/ebpf/walkers/snapshot.rs"]
#[allow(dead_code, reason = "rules are for walks of one processor")]
mod snapshot;
