//! Loading and sampling. Leaves out the stacks in the samples (`unwind`).

mod jitter;
mod sampling;
mod verifier;
