//! From what the probes walked to numbered frames and stacks.
//!
//! `builder` makes stacks: `stack_copies` unwinds what the probes could not, `generated_code` proves what they guessed, `python_frames` reads what is
//! at a code object, `libraries` says in which file an address is, `ranges` are what the program marks, `spans` what it says that threads work for, `interner` numbers frames and stacks, `pool_loops` knows where pools
//! wait for work, and `naming` finds names at the end. Leaves out when a stack was taken (`collect/`).

pub(super) mod builder;
mod generated_code;
pub(super) mod interner;
pub(super) mod libraries;
pub(super) mod naming;
mod owners;
mod pool_loops;
pub(super) mod python_frames;
pub(super) mod ranges;
pub(super) mod spans;
pub(super) mod stack_copies;
