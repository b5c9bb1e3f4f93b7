//! Threads for which others wait: they sleep nearly all the time, do little when they are woken, and what they look at may be gone soon.
//!
//! Leaves out on which CPUs they run (`probe/priority.rs`).

use std::io;

/// More urgent than all that is not the system's own.
pub const NICENESS: i32 = -15;
/// Nanoseconds of a turn on a CPU, the least that is heeded. Whoever takes short turns has the next one soon after waking, instead of after the turn of
/// somebody else, some milliseconds later (sched(7); heeded since Linux 6.12).
const TURN_NS: u64 = 100_000;

/// Puts this thread, and what it starts from now on, before others. Where that is not allowed it stays as it is.
pub fn raise() {
    // SAFETY: all of it is numbers, for which zero is one.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    wanted.size = u32::try_from(size_of_val(&wanted)).unwrap_or(0);
    (wanted.sched_nice, wanted.sched_runtime) = (NICENESS, TURN_NS);
    // SAFETY: reads the attributes behind the pointer, as many bytes as they say, and changes the calling thread's scheduling only.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) } != 0;
    if failed {
        log::debug!("a thread keeps its priority: {}", io::Error::last_os_error());
    }
}

/// Puts this thread before all that are not of the real-time class themselves. For one that does little each time, whatever others do.
pub fn raise_above_all() {
    raise();
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: changes the scheduling of the calling thread only, and reads the one number behind the pointer.
    let failed =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const lowest) }
            != 0;
    if failed {
        log::debug!("a thread is not of the real-time class: {}", io::Error::last_os_error());
    }
}

/// The niceness of this thread.
pub fn niceness() -> i32 {
    // SAFETY: reads a number of the calling thread; -1 is an answer too.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets it; where that is not allowed it stays as it is.
pub fn set_niceness(niceness: i32) {
    // SAFETY: changes the priority of the calling thread only; it has no effect on memory.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) } != 0;
    if failed {
        log::debug!("a thread keeps its priority: {}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::{NICENESS, niceness, raise, raise_above_all};

    /// A thread is more urgent than before, then of the real-time class, and what it starts then is not.
    #[test]
    fn urgent_threads() {
        let own = || {
            // SAFETY: reads a number of the calling thread.
            let class = unsafe { libc::sched_getscheduler(0) };
            (niceness(), class & !libc::SCHED_RESET_ON_FORK)
        };
        std::thread::spawn(move || {
            raise();
            assert_eq!(own(), (NICENESS, libc::SCHED_OTHER));
            raise_above_all();
            assert_eq!(own().1, libc::SCHED_RR);
            let started = std::thread::spawn(own).join().unwrap();
            assert_eq!(started.1, libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }
}
