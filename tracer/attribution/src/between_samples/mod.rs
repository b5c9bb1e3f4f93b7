//! What threads were probably doing between two samples.
//!
//! * `markov_bridge`: the probability of each function between two samples of one thread.
//! * `expected_time`: what that makes of a part of an interval.
//! * `switching_chain`: how fast each thread changes what it does, and the mix of functions that it draws from.
//! * `mix_changes`: where that mix changed during the run.
//! * `raking`: times that agree with the number of samples.
//!
//! Leaves out what the functions draw (`power_model`).

pub(crate) mod expected_time;
pub(crate) mod markov_bridge;
pub(crate) mod mix_changes;
pub(crate) mod raking;
pub(crate) mod switching_chain;
