//! What a recording means: joules per thread and stack and the ledger that they add up in (`tables`).
//!
//! * `by_process`: the same by domain and process alone.
//! * `options`: what a reader chooses; `run`: facts of the run that a report shows.
//! * `certainty`: how certain any set of rows is; `validity`: whether learned powers may split energy.
//! * `over_time`: energy in bins of time, and the profile of a part of a run.
//! * `phases`: stretches that were told apart by what ran in them.
//! * `work`: units of work, and the energy of the time in which they were done; `stretches`: the profile of those alone.
//! * `adding`: the profiles of several machines as one; `arguments`: whose command lines an output holds.
//! * `diagnostics`: what to know before believing a number.
//!
//! Leaves out how it comes about (`energy-trace-attribution`).

mod adding;
pub mod arguments;
mod by_process;
pub mod certainty;
pub mod diagnostics;
pub mod options;
pub mod over_time;
pub mod phases;
pub mod run;
pub mod stretches;
mod tables;
pub mod validity;
pub mod work;

pub use by_process::DomainByProcess;
pub use options::{Options, View};
pub use over_time::{OverTime, PartOfRun};
pub use tables::{EnergyByClass, LedgerRow, PartOfProfile, Profile, ProfileRow, UnattributedReason};
