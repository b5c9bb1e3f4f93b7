//! The recording and what comes out of it: its facts (`record`), their tables (`recording`), how they lie in a file (`file`), joules per
//! stack (`energy_profile`).

mod assembly;
mod domain;
pub mod energy_profile;
pub mod file;
mod late_names;
pub mod record;
pub mod recording;
mod wire;
