//! What the hooks call. Exists in the BPF binary only.

pub(crate) mod cached_tables;
pub(crate) mod count;
pub(crate) mod gpu;
pub(crate) mod gpu_arguments;
pub(crate) mod gpu_stack;
pub(crate) mod groups;
pub(crate) mod kernel_frames;
mod last_process;
pub(crate) mod maps;
pub(crate) mod native_walk;
mod open_calls;
pub(crate) mod python_walk;
pub(crate) mod ranges;
pub(crate) mod raw;
pub(crate) mod registers;
pub(crate) mod rings;
pub(crate) mod sample;
pub(crate) mod scan;
pub(crate) mod sched;
mod scratch;
pub(crate) mod seen_codes;
pub(crate) mod send;
pub(crate) mod tables;
pub(crate) mod tasks;
pub(crate) mod user_memory;
mod user_window;
pub(crate) mod waits;
