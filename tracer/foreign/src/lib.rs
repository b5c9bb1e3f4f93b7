//! What belongs to targets and other users: how it is opened, read and parsed so that no harm comes of it.
//!
//! `files` opens files so that opening does nothing else; `resolver` is the processes without privileges that parse what was opened; `peeker`
//! is the process that looks into targets' memory and `/proc`, with a deadline.
//!
//! Leaves out what is done with the answers (packages `naming` and `probe`), and parsing itself (`symbols`, `unwind`).

mod arch;
pub mod files;
pub mod peeker;
pub mod resolver;
