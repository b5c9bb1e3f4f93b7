//! What happened: the facts of one run (`record`), their tables (`tables`), frames that stand for no code (`synthetic_frame`, `ranges`), and how all lie in a
//! file (`file`) of which format (`format`).
//!
//! Of several recordings: `merging` puts them into one file, `machines` says which of them are of one
//! machine, `joining` makes one of those, `moving` sets their clocks. `totals` lays CPU time out that was
//! summed, `traces` chooses one. `live` reads one while it is written (`places`).
//!
//! Leaves out what they mean in joules (`profile`).

mod account;
mod assembly;
mod calls;
mod diagnostics;
mod domain;
pub mod file;
pub mod format;
mod frequencies;
mod gpu_waits;
mod inputs;
mod interpreter;
pub mod joining;
mod kernels;
mod late_names;
mod launches;
pub mod live;
mod losses;
pub mod machines;
pub mod merging;
mod moving;
pub mod names;
mod overlaps;
mod owners;
mod parts;
mod places;
mod project;
mod public_names;
pub mod ranges;
pub mod record;
mod sampling;
mod sources;
pub mod synthetic_frame;
mod tables;
mod thermal;
pub mod totals;
pub mod traces;
mod two_counters;
mod wire;
mod work;

pub use public_names::{PublicNames, package_in};
pub use tables::{GpuFacts, Part, Recording, Requests, frames_of};
