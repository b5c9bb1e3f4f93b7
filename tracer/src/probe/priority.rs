//! The priority of the threads that read events and files.
//!
//! Leaves out the threads.

/// Puts this thread before others: it sleeps nearly all the time, and what it reads of a process may be gone soon.
pub(crate) fn raise_priority() {
    // SAFETY: changes the priority of the calling thread only; it has no effect on memory.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) } != 0;
    if failed {
        log::debug!("a thread of the reader keeps its priority: {}", std::io::Error::last_os_error());
    }
}
