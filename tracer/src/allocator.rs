//! How the allocator treats what is read of files and of the kernel: megabytes for a moment, which are given back.
//!
//! Leaves out what is read.

/// Has the allocator map large blocks one by one, so that those of files that were read go back to the system at once. Left to itself, glibc
/// learns from the first large block that is freed to keep the next ones (mallopt(3), `M_MMAP_THRESHOLD`).
pub(crate) fn return_large_blocks() {
    const BYTES: i32 = 256 << 10;
    // SAFETY: sets a number of the allocator, under its own lock; it has no effect on blocks that there are.
    if unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES) } == 0 {
        log::debug!("the allocator keeps its own thresholds");
    }
}

/// Has the allocator give back what is free in small blocks: megabytes once the types of the kernel were read.
pub(crate) fn trim() {
    // SAFETY: works on free memory only, under the allocator's own locks.
    let _some = unsafe { libc::malloc_trim(0) };
}
