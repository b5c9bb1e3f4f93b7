//! What belongs to targets and other users: how it is opened, read and parsed so that no harm comes of it.
//!
//! ```
//! use energy_trace_foreign::files::{Pool, Room};
//! use energy_trace_model::recording::record::Owner;
//!
//! // Budgets are by owner: where all is taken, who has most gives up the oldest of theirs.
//! let mut open = Pool::new(2);
//! let (ann, bob) = (Owner::User(1000), Owner::User(1001));
//! assert_eq!([open.add(ann, "a.so"), open.add(ann, "b.so")], [Room::Free, Room::Free]);
//! assert_eq!(open.add(bob, "c.so"), Room::Instead(ann, "a.so"));
//! ```
//!
//! `files` opens files so that opening does nothing else; `resolver` is the processes without privileges that parse what was opened; `peeker`
//! is the process that looks into targets' memory and `/proc`, with a deadline.
//!
//! Leaves out what is done with the answers (packages `naming` and `probe`), and parsing itself (`symbols`, `unwind`).

mod arch;
pub mod files;
pub mod peeker;
pub mod resolver;
