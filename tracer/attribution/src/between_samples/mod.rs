//! What threads were probably doing between two samples.
//!
//! * `interval_slices`: a domain's time between two samples and between two readings.
//! * `markov_bridge`: probabilities between two samples of a chain that forgets.
//! * `switching_chain`: how fast each track forgets, and the mix that it draws from; `every_nth`: the samples
//!   that say it.
//! * `expected_time`: what follows for the time of each column.
//! * `balance`: mixes under which sums of that are right.

pub(crate) mod balance;
pub(crate) mod every_nth;
pub(crate) mod expected_time;
pub(crate) mod interval_slices;
pub(crate) mod markov_bridge;
pub(crate) mod switching_chain;
