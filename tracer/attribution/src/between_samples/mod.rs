//! What threads were probably doing between two samples.
//!
//! * `interval_slices`: a domain's time between two samples and between two readings.
//! * `markov_bridge`: probabilities between two samples of a chain that forgets.
//! * `switching_chain`: how fast each track forgets, and the mix that it draws from.
//! * `expected_time`: what follows for the time of each column.

pub(crate) mod expected_time;
pub(crate) mod interval_slices;
pub(crate) mod markov_bridge;
pub(crate) mod switching_chain;
