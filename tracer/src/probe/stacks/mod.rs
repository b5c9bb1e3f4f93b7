//! From what the probes walked to numbered frames and stacks.
//!
//! `raw_stacks` unwinds what the probes could not, `frames` and `python_frames` say what is at an address, `libraries` in which file it is,
//! `interner` numbers frames and stacks, and `naming` finds names at the end. Leaves out when a stack was taken (`collect/`).

pub(super) mod frames;
pub(super) mod interner;
pub(super) mod libraries;
pub(super) mod naming;
mod pool_loops;
pub(super) mod python_frames;
pub(super) mod raw_stacks;
