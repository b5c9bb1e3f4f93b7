//! energy-trace: joules per mixed native + Python stack, without code changes.
//!
//! Data flows one way: `power/` and `probe/` read the world, `timeline/` and `unwind/` give it shape, a recording (`profile/`) holds it,
//! `attribution/` splits the energy, `report/` shows it. `ARCHITECTURE.md` has the picture, the rooms and the invariants.

mod allocator;
pub mod attribution;
pub mod background;
pub mod cli;
pub mod clock;
pub mod doctor;
pub mod finisher;
pub mod foreign;
pub mod ids;
pub mod plan;
pub mod power;
pub mod privileges;
pub mod probe;
pub mod profile;
pub mod report;
pub mod resolver;
pub mod roles;
pub mod session;
pub mod symbolize;
pub mod target;
pub mod timeline;
pub mod units;
pub mod unwind;
