//! The one clock of the simulation: `CLOCK_MONOTONIC` in nanoseconds. Leaves out everything else.

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Waits for a moment: with the CPU busy, as CUDA does by default, or asleep.
pub fn wait_until(at_ns: u64, spin: bool) {
    loop {
        let now = now_ns();
        if now >= at_ns {
            return;
        }
        if spin {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(std::time::Duration::from_nanos(at_ns - now));
        }
    }
}
