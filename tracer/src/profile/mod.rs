//! The recording and what comes out of it: its facts (`record`), their tables (`recording`), joules per stack (`energy_profile`).

pub mod energy_profile;
pub mod record;
pub mod recording;
