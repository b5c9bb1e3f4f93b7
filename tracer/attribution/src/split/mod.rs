//! Splits a domain's energy among those who ran, in whole microjoules.
//!
//! * `by_time`: by CPU time alone, and what the idle baseline took.
//! * `by_power`: by expected time and power; `interval`: one interval of it.
//! * `idle`: what becomes of the idle baseline.

pub(crate) mod by_power;
pub(crate) mod by_time;
pub(crate) mod idle;
mod interval;
