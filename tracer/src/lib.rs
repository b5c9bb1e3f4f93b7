//! energy-trace: joules per mixed native + Python stack, without code changes.
//!
//! Data flows one way: `power/` and `probe/` read the world, package `unwind` makes stacks, a recording (package `model`) holds it,
//! `attribution/` splits the energy, `report/` shows it. `docs/architecture.md` has the picture, the rooms and the invariants.

mod allocator;
pub mod cli;
pub mod clock;
pub mod doctor;
pub mod finisher;
pub mod foreign;
pub mod host;
pub mod naming;
pub mod peeker;
pub mod plan;
pub mod power;
pub mod privileges;
pub mod probe;
pub mod resolver;
pub mod roles;
pub mod session;
pub mod study;
pub mod symbolize;
pub mod threads;
mod top;
pub mod tracee;
