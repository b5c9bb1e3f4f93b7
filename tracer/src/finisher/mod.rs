//! The finisher: a process that is the invoking user, without privileges, and has all to do with output files and results.
//!
//! ```text
//!  recorder                          finisher
//!  fork ────────────────────────►    becomes the user for good
//!  Prepare ─────────────────────►    older recording to .old, new one O_EXCL; room for the flame graph
//!  ◄──── the recording, open         looks which files the command will map (a process of its own)
//!  Prefetch ────────────────────►    … their paths
//!  Project ─────────────────────►    … what Git says of the folder in which the command starts
//!  Began ───────────────────────►    from now on files are kept; whoever leaves before that has them taken away
//!  writes the recording
//!  Finish ──────────────────────►    reads its own descriptor, attributes, draws, puts the flame graph into its place
//!  Show ────────────────────────►    the summary on stderr
//! ```
//!
//! The recorder never opens, looks at or names an output path. Leaves out what is recorded (`session/`).

mod client;
mod message;
mod outputs;
mod place;
mod prefetch;
mod project;
mod results;
mod role;
mod send_back;

pub use client::{Finisher, FinisherError};
pub use prefetch::CommandFiles;
