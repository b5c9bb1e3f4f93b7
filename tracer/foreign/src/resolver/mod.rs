//! The resolver: processes without privileges that parse what targets and other users can write.
//!
//! ELF files, unwind tables, symbol tables, debug information, perf maps and jitdumps are made by whoever is traced. The recorder opens them
//! and looks into none: it passes the open file, with a question (`question.rs`), to a worker (`serve.rs`) and waits for a typed answer, with a
//! deadline. A worker runs as a user that nobody else has, can open no file, and has a limit on memory (`sandbox.rs`). One that dies or takes too
//! long costs the answer about its file, which is named in a warning; the next question gets a new worker (`server.rs`), and what it cost is
//! counted against the file's owner alone (`losses.rs`). What an answer says may be wrong: sizes and orders that the recorder relies on are
//! checked again. Leaves out parsing itself (packages `unwind` and `symbols`).

mod ask;
mod client;
mod losses;
pub mod question;
mod sandbox;
pub mod serve;
mod server;
mod usage;
mod worker;

pub use client::{ResolveError, Resolver};
pub use energy_trace_model::recording::record::ReadFailure;
pub(crate) use sandbox::leave_terminal;
pub use sandbox::{Allowed, confine, landlock_version};
pub use server::run_as_server;
pub(crate) use usage::cpu_ns_of_all;
pub use worker::Worker;
