//! Splits a domain's energy among those who ran, in whole microjoules.
//!
//! * `by_time`: by CPU time alone, and what the idle baseline took.
//! * `posterior`: by expected time and power; `posterior_update`: what an interval's energy says about who ran.
//! * `idle`: what becomes of the idle baseline.

pub(crate) mod by_time;
pub(crate) mod idle;
pub(crate) mod posterior;
pub(crate) mod posterior_update;
