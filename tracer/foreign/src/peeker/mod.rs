//! Looks into targets: their memory, what `/proc` says of them, the files that they have mapped. A process of its own does it, so that it can be
//! abandoned.
//!
//! A page of a target may lie in a file whose file system never answers; whoever reads it then waits for ever, and no signal ends that. So the
//! thread that takes events in, and every other thread of the recorder, asks here and waits for a stated time at the most. A process
//! that does not answer is put aside and given up after `GIVEN_UP`; the target that it asked about is asked about no more, and its user's others
//! ever shorter (`owners.rs`). Leaves out what is done with the answers.

mod ask;
mod client;
mod copies;
mod memory;
mod owners;
mod question;
mod serve;
mod server;

pub use client::{Peeker, Unanswered};
pub use memory::TargetMemory;
pub use question::{Known, OpenedFile, Program, Seen, digest};
