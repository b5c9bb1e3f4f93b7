//! Unwind tables of mapped files.
//!
//! `files` has them made in the background and keeps account of them, `eviction` says which make room, `fair_queue` says whose come first,
//! `mapping_pool` hands out blocks for the mappings that lead to them; `unwind_files` looks up one row at a time for what user space unwinds, by
//! the workers of `lanes`. `generated_rows` are the tables of code that is in no file. Leaves out how rows are made
//! (package `unwind`) and the BPF maps that hold them (`bpf/row_maps.rs`).

mod eviction;
pub(super) mod fair_queue;
pub(super) mod files;
pub(super) mod generated_rows;
mod lanes;
pub(super) mod mapping_pool;
pub(super) mod unwind_files;

/// Drops files: the last who closes a large one that was deleted waits until its room is free, and so does that on a thread of its own.
pub(super) fn drop_elsewhere(files: impl Send + 'static) {
    // Without a thread they are closed here.
    let _ = std::thread::Builder::new().name("energy-close".into()).spawn(move || drop(files));
}
