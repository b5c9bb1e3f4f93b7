//! Loading and sampling. Leaves out the stacks in the samples (`unwind`).

mod jitter;
mod pauses;
mod sampling;
mod summed;
mod verifier;
