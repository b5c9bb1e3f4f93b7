//! Calls of installed packages on stacks: which there are, what users call them, and what the rest is.
//!
//! * `owner`: whose code a frame is; `naming`, `builtins`: the public name of what it does.
//! * `path`: the entries of a stack; `rest`: what a stack without any is.
//! * `table`: all of it for a profile.
//!
//! Leaves out rows and their energy (`call_rows.rs`).

mod builtins;
pub(crate) mod naming;
pub(crate) mod owner;
mod path;
mod rest;
mod table;

pub use table::Kind;
pub(crate) use table::{CallTable, Label, Step};
