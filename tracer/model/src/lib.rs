//! The nouns of energy-trace: quantities (`units`), one clock (`clock`), names of things (`ids`), what happened (`recording`) and what it
//! means (`profile`); and sorts that all lists share (`collections`).
//!
//! ```
//! use energy_trace_model::units::MicroJoules;
//!
//! // Nothing is lost by rounding.
//! let parts = MicroJoules::from_uj(10).split(&[1, 2]).unwrap();
//! assert_eq!(parts.iter().map(|part| part.as_uj()).collect::<Vec<_>>(), [3, 7]);
//! ```
//!
//! Leaves out everything that touches the world but the recording's own file: it builds on every system that Rust's standard library knows.

pub mod clock;
pub mod collections;
pub mod ids;
pub mod profile;
pub mod recording;
pub mod units;
