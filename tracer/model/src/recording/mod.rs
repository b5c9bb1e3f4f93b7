//! What happened: the facts of one run (`record`), their tables (`tables`), how they lie in a file (`file`).
//!
//! Leaves out what they mean in joules (`profile`).

mod assembly;
mod domain;
pub mod file;
mod frequencies;
mod gpu_waits;
mod kernels;
mod late_names;
mod launches;
pub mod record;
mod tables;
mod wire;

pub use tables::{GpuFacts, Recording, Requests, frames_of};
