//! The recording and what comes out of it: its facts (`record`), their tables (`recording`), how they lie in a file (`file`), joules per
//! stack (`energy_profile`), how sure they are (`certainty`), whether learned watts may be used (`gates`) and what a reader chose
//! (`accounting`).

pub mod accounting;
mod assembly;
pub mod certainty;
mod domain;
pub mod energy_profile;
pub mod file;
mod frequencies;
pub mod gates;
mod gpu_waits;
mod kernels;
mod late_names;
mod launches;
pub mod record;
pub mod recording;
mod wire;
