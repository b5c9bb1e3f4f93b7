//! How the allocator treats what is needed for a moment, of files, of the kernel and of recordings: megabytes, which are given back.
//!
//! Leaves out what is read.

/// Bytes of a large block, while something is recorded.
pub const RECORDING: i32 = 256 << 10;
/// The same while a recording is read and attributed: smaller blocks are needed again and again, and to map each anew takes 4 % more time.
pub const READING: i32 = 2 << 20;

/// What stays free at the end of a heap while a recording is read and attributed.
const KEPT: i32 = 64 << 20;

/// Has the allocator map blocks of so many bytes or more one by one, so that they go back to the system at once when they are freed. Left to
/// itself, glibc learns from the first large block that is freed to keep the next ones (mallopt(3), `M_MMAP_THRESHOLD`).
pub fn return_large_blocks(bytes: i32) {
    set(libc::M_MMAP_THRESHOLD, bytes);
}

/// Has the allocator keep what is free in small blocks. Left to itself, glibc gives it back as soon as it is 128 KiB (`M_TRIM_THRESHOLD`), to
/// ask for it again: a quarter of all pages that a report takes.
pub fn keep_small_blocks() {
    set(libc::M_TRIM_THRESHOLD, KEPT);
}

fn set(parameter: libc::c_int, bytes: i32) {
    // SAFETY: sets a number of the allocator, under its own lock; it has no effect on blocks that there are.
    if unsafe { libc::mallopt(parameter, bytes) } == 0 {
        log::debug!("the allocator keeps its own thresholds");
    }
}

/// Has the allocator give back what is free in small blocks: megabytes once the types of the kernel were read.
pub fn trim() {
    // SAFETY: works on free memory only, under the allocator's own locks.
    let _some = unsafe { libc::malloc_trim(0) };
}
