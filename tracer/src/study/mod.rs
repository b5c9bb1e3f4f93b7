//! Studies: programs run again and again, each run recorded by this same program, until the tables can be made.
//!
//! ```text
//!  launcher    root or capabilities   starts `energy-trace record` for programs that it was told before the first run   reads no file
//!  conductor   the invoking user      plan, order, rests, recordings, metrics, tables                                    has no privileges
//! ```
//!
//! The conductor is forked first of all and speaks over a socket (`order`). The options of recordings are the launcher's own, from the
//! command line. Leaves out what the tables say (`report::study`).

pub mod conductor;
mod folder;
pub mod launcher;
mod machine;
mod metrics;
mod numbers;
mod order;
pub mod plan;
pub mod suite;

pub use conductor::{Numbers, Shown, conduct, end};
pub use metrics::{Metric, Pattern};
pub use suite::read_text;
