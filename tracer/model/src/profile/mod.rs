//! What a recording means: joules per thread and stack and the ledger that they add up in (`energy_profile`), how sure they are
//! (`certainty`), whether learned watts may be used (`gates`), what to know before believing them (`diagnostics`) and what a reader chose (`accounting`).
//!
//! Leaves out how it comes about (`energy-trace-attribution`).

pub mod accounting;
pub mod certainty;
pub mod diagnostics;
mod energy_profile;
pub mod gates;

pub use energy_profile::{EnergyByClass, EnergyProfile, LedgerRow, ProfileRow, UnattributedReason, View};
