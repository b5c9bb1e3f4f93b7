//! The nouns of energy-trace: quantities (`units`), one clock (`clock`), names of things (`ids`), what happened (`recording`) and what it
//! means (`profile`).
//!
//! Leaves out everything that touches the world but the recording's own file: it builds on every system that Rust's standard library knows.

pub mod clock;
pub mod ids;
pub mod profile;
pub mod recording;
pub mod units;
