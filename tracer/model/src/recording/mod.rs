//! What happened: the facts of one run (`record`), their tables (`tables`), frames that stand for no code (`mark`), how all lie in a file
//! (`file`), and how older versions wrote them (`old_formats`).
//!
//! Leaves out what they mean in joules (`profile`).

mod assembly;
mod calls;
mod diagnostics;
mod domain;
pub mod file;
mod frequencies;
mod gpu_waits;
mod inputs;
mod interpreter;
mod kernels;
mod late_names;
mod launches;
mod losses;
pub mod mark;
mod old_formats;
mod project;
mod public_names;
pub mod record;
mod sampling;
mod sources;
mod tables;
mod thermal;
mod wire;

pub use public_names::PublicNames;
pub use tables::{GpuFacts, Recording, Requests, frames_of};
