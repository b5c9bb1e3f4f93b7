//! Studies: programs run again and again, each run recorded by this same program, until the tables can be made.
//!
//! ```text
//!  launcher    root or capabilities   starts `energy-trace record` for programs that it was told before the first run   reads no file
//!  conductor   the invoking user      plan, order, rests, recordings, metrics, tables                                    has no privileges
//! ```
//!
//! The conductor is forked first of all and speaks over a socket (`order`). The options of recordings are the launcher's own, from the
//! command line. `data` is what is known of a study, `tables` and `sentences` show it.
//!
//! ```
//! use energy_trace_study::data::Study;
//!
//! assert!(Study::default().runs.is_empty());
//! ```
//!
//! Leaves out the statistics themselves (package `statistics`).

pub mod conductor;
pub mod data;
mod folder;
pub mod launcher;
mod machine;
mod methods;
mod metrics;
mod numbers;
mod order;
pub mod plan;
mod sentences;
pub mod suite;
pub mod tables;

pub use conductor::{Numbers, Shown, conduct, end};
pub use metrics::{Metric, Pattern};
pub use suite::read_text;
