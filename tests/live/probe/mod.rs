//! Loading and sampling. Leaves out the stacks in the samples (`unwind`).

mod sampling;
mod verifier;
