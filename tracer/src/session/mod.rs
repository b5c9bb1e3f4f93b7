//! One recording from end to end: wires the stages and owns the order in which they start and stop.
//!
//! ```text
//!  checks ─► finisher forked: files ─► power + idle baseline ─► tracer loaded ─► command forked, held ─► followed
//!         ─► tracer starts ─► power starts ─► command released ─► … wait …
//!         ─► power stops ─► tracer stops ─► summary ─► finisher: attribution, flame graph ─► command's end ─► finisher: table
//! ```
//!
//! Each thing that can fail does so before the command's first instruction; a command that was forked and is not released ends without
//! a word. The recording's time lies between a moment after the first power reading was begun and one before the last, so readings
//! cover it whole. Output paths are the finisher's alone. Leaves out what is recorded (`probe`, `power`) and what it means (`attribution`, `report`).

mod account;
mod caller;
mod checks;
mod control;
mod error;
mod finish;
mod gpu_kernel_tier;
mod header;
mod marked_ranges;
mod others;
mod own_share;
mod progress;
mod python_counts;
mod run;
mod stage;
mod target_spec;
mod writer;

pub use caller::tell_failure;
pub(crate) use checks::check_command;
pub use error::SessionError;
pub use run::{Ended, run};
