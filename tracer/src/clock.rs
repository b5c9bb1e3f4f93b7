//! Reading the one clock (`KtimeNs`), and its tie to wall time.
//!
//! Leaves out what times mean. Used where the world is read; attribution is handed times.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use std::time::{SystemTime, UNIX_EPOCH};

/// The time now.
pub fn now() -> KtimeNs {
    read(libc::CLOCK_MONOTONIC)
}

/// How long the machine has slept since it started, in nanoseconds: what `CLOCK_BOOTTIME` counts and `CLOCK_MONOTONIC` leaves out.
/// Two clocks are read, so it is true to a microsecond or so.
pub fn slept_ns() -> u64 {
    let before = now();
    let boot = read(libc::CLOCK_BOOTTIME);
    boot.ns_since(before.midpoint(now()))
}

/// One moment on both clocks, read one after the other (well under a microsecond apart).
pub fn anchor() -> WallAnchor {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallAnchor { ktime: now(), unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX) }
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).as_ns()
}

fn read(clock: libc::clockid_t) -> KtimeNs {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec, and the clocks named (monotonic, boot time, of a thread) exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &raw mut ts) };
    KtimeNs::from_ns(ts.tv_sec.cast_unsigned() * 1_000_000_000 + ts.tv_nsec.cast_unsigned())
}
