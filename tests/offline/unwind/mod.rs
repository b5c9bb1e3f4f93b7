//! Unwind tables and line tables against other readers of the same files. Leaves out stacks (`tests/live/unwind`).

mod hostile_input;
mod lines;
mod rows;
