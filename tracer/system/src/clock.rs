//! Reading the one clock (`KtimeNs`), and its tie to wall time.
//!
//! The clock is the kernel's. In a time namespace (time_namespaces(7)) this process sees it shifted, while the probes do not: what is read
//! here is shifted back. Leaves out what times mean. Used where the world is read; attribution is handed times.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the first time namespace is: `PROC_TIME_INIT_INO` (include/linux/proc_ns.h, v6.1).
const FIRST_TIME_NAMESPACE: &str = "time:[4026531834]";

/// By how much a time namespace shows clocks ahead of the kernel's, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ahead {
    monotonic: i64,
    boot: i64,
}

/// The time now.
pub fn now() -> KtimeNs {
    back(read(libc::CLOCK_MONOTONIC), ahead().monotonic)
}

/// How long the machine has slept since it started, in nanoseconds: what `CLOCK_BOOTTIME` counts and `CLOCK_MONOTONIC` leaves out.
/// Two clocks are read, so it is true to a microsecond or so.
pub fn slept_ns() -> u64 {
    let before = now();
    let boot = back(read(libc::CLOCK_BOOTTIME), ahead().boot);
    boot.ns_since(before.midpoint(now()))
}

/// One moment on both clocks, read one after the other (well under a microsecond apart).
pub fn anchor() -> WallAnchor {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallAnchor { ktime: now(), unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX) }
}

/// By how many nanoseconds the wall clock is off at the most, as the kernel reckons (adjtimex(2), `maxerror`); `None`: nobody
/// keeps it right. The estimate there is 0 for ever where systemd keeps the time.
pub fn wall_error_ns() -> Option<i64> {
    let mut known = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: the pointer is to a `timex` of zeros, whose `modes` say that nothing is set; the kernel writes plain numbers there.
    let (state, known) = unsafe { (libc::adjtimex(known.as_mut_ptr()), known.assume_init()) };
    // `TIME_ERROR`: unsynchronised; below 0 the call failed.
    (0..libc::TIME_ERROR).contains(&state).then(|| known.maxerror.saturating_mul(1_000))
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).as_ns()
}

/// Of this process, which stays in its time namespace.
fn ahead() -> Ahead {
    static AHEAD: OnceLock<Ahead> = OnceLock::new();
    *AHEAD.get_or_init(|| ahead_at(Path::new("/proc/self")))
}

/// The file has what the process's children will see; an ordinary process's clocks are the same.
fn ahead_at(process: &Path) -> Ahead {
    let namespace = |name: &str| std::fs::read_link(process.join("ns").join(name)).ok();
    let (own, for_children) = (namespace("time"), namespace("time_for_children"));
    if own.as_deref() == Some(Path::new(FIRST_TIME_NAMESPACE)) {
        return Ahead::default();
    }
    if own != for_children {
        log::warn!(
            "this process is between two time namespaces: its clocks may be shifted against the kernel's; start it by another process"
        );
    }
    parse_offsets(&std::fs::read_to_string(process.join("timens_offsets")).unwrap_or_default())
}

/// Lines such as `monotonic  -86400  500000000`: seconds, and nanoseconds that are added to them.
fn parse_offsets(text: &str) -> Ahead {
    let offset = |clock: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(clock))?;
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<i64>);
        let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    };
    let [monotonic, boot] = ["monotonic", "boottime"].map(|clock| offset(clock).unwrap_or(0));
    Ahead { monotonic, boot }
}

const fn back(seen: KtimeNs, ahead: i64) -> KtimeNs {
    KtimeNs::from_ns(seen.as_ns().saturating_add_signed(ahead.saturating_neg()))
}

fn read(clock: libc::clockid_t) -> KtimeNs {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec, and the clocks named (monotonic, boot time, of a thread) exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &raw mut ts) };
    KtimeNs::from_ns(ts.tv_sec.cast_unsigned() * 1_000_000_000 + ts.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::{Ahead, ahead_at, back, parse_offsets, wall_error_ns};
    use energy_trace_model::clock::KtimeNs;
    use std::os::unix::fs::symlink;

    /// What is kept right is off by no more than the 16 s from which on the kernel calls it unsynchronised.
    #[test]
    fn error_of_the_wall_clock() {
        assert!(wall_error_ns().is_none_or(|ns| (0..=16_000_000_000).contains(&ns)));
    }

    /// Clocks of a time namespace are shifted back by what the kernel says of it; in the first one, whose file may speak of its children,
    /// nothing is.
    #[test]
    fn clocks_are_shifted_back() {
        let text = "monotonic      -86400 500000000\nboottime          7         0\n";
        let ahead = Ahead { monotonic: -86_399_500_000_000, boot: 7_000_000_000 };
        assert_eq!(parse_offsets(text), ahead);
        assert_eq!(back(KtimeNs::from_ns(1), ahead.monotonic).as_ns(), 86_399_500_000_001);
        assert_eq!(back(KtimeNs::from_ns(7_000_000_001), ahead.boot).as_ns(), 1);
        assert_eq!((parse_offsets(""), parse_offsets("monotonic x")), (Ahead::default(), Ahead::default()));
        let process = tempfile::tempdir().unwrap();
        std::fs::create_dir(process.path().join("ns")).unwrap();
        std::fs::write(process.path().join("timens_offsets"), text).unwrap();
        symlink("time:[4026531834]", process.path().join("ns/time")).unwrap();
        assert_eq!(ahead_at(process.path()), Ahead::default());
        std::fs::remove_file(process.path().join("ns/time")).unwrap();
        symlink("time:[4026532999]", process.path().join("ns/time")).unwrap();
        assert_eq!(ahead_at(process.path()), ahead);
    }
}
