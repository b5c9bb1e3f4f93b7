//! Calls of installed packages on stacks: which there are, what users call them, and what the rest is.
//!
//! * `owner`: whose code a frame is; `naming`, `builtins`, `extensions`: the public name of what it does.
//! * `path`: the entries of a stack; `rest`: what a stack without any is.
//! * `table`: all of it for a profile; `warning`: packages whose calls have no names.
//!
//! Leaves out rows and their energy (`call_rows.rs`).

mod builtins;
mod extensions;
pub(crate) mod naming;
pub(crate) mod owner;
mod path;
mod rest;
mod table;
mod warning;

pub use table::Kind;
pub use table::{CallTable, Label, Step};
pub(crate) use warning::calls_not_named;
