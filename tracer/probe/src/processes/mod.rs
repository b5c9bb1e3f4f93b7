//! The processes that were seen, and what is kept of each.
//!
//! `registry` holds them all, `process` is one, `commands` how much of its command line is recorded; `young` are those that nobody had to look at yet; `moved` changes the control group, `followed` ran before; `maps_budget` says when `/proc/PID/maps` is read, `code_objects`, `object_names` and `frame_cache` are what
//! was read of a program before, `eval_frame` where its interpreter's frames end. Leaves out stacks (`stacks/`).

mod code_objects;
mod commands;
pub(super) mod eval_frame;
mod followed;
mod frame_cache;
mod maps_budget;
mod moved;
mod object_names;
pub(super) mod process;
pub(super) mod registry;
mod young;
