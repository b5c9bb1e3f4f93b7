//! energy-trace: joules per mixed native + Python stack, without code changes.
//!
//! Data flows one way: `power/` and `probe/` read the world, package `unwind` makes stacks, a recording (package `model`) holds it,
//! `attribution/` splits the energy, `report/` shows it. `docs/architecture.md` has the picture, the rooms and the invariants.

mod agent;
pub mod cli;
pub mod collector;
pub mod doctor;
pub mod finisher;
mod live;
mod message;
mod plain_http;
pub mod plan;
pub mod session;
mod top;
pub mod tracee;
pub mod work;
