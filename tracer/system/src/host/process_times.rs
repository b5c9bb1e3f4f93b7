//! CPU time that the kernel has counted for a process, and for the machine.
//!
//! Leaves out control groups (`tracee/cgroup.rs`), and a command's own account, which comes with its end (`tracee/launch.rs`).

use energy_trace_model::ids::Pid;
use std::path::Path;

/// A kernel thread (`PF_KTHREAD`, include/linux/sched.h, v6.1).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What the kernel has counted of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// CPU time of all its threads, of those that have ended too.
    pub own_ns: u64,
    /// That of its children which it has waited for, and of theirs: to a hundredth of a second.
    pub waited_ns: u64,
    /// How long ago it started.
    pub age_ns: u64,
    /// It is one of the kernel's.
    pub is_kernels: bool,
}

impl ProcessTimes {
    /// Its own and that of children it has waited for.
    pub const fn all_ns(self) -> u64 {
        self.own_ns.saturating_add(self.waited_ns)
    }
}

/// Reads it of a process that is there, `None` of others.
pub fn read_process_times(pid: Pid) -> Option<ProcessTimes> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let boot_ns = clock_ns(libc::CLOCK_BOOTTIME)?;
    let times = parse_stat(&stat, boot_ns, ticks_a_second())?;
    Some(ProcessTimes { own_ns: clock_ns(clock_of(pid)).unwrap_or(times.own_ns), ..times })
}

/// Time that the host took from this machine's CPUs, all together, so far; `None` where that is not known.
pub fn read_stolen_ns(proc: &Path) -> Option<u64> {
    let stat = std::fs::read_to_string(proc.join("stat")).ok()?;
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks_to_ns(ticks, ticks_a_second()))
}

/// Fields 9, 14 to 17 and 22 of proc_pid_stat(5), behind a name in parentheses that may hold some itself.
fn parse_stat(stat: &str, boot_ns: u64, hz: u64) -> Option<ProcessTimes> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let sum = |one: usize, other: usize| Some(ticks_to_ns(number(one)?.saturating_add(number(other)?), hz));
    Some(ProcessTimes {
        own_ns: sum(14, 15)?,
        waited_ns: sum(16, 17)?,
        age_ns: boot_ns.saturating_sub(ticks_to_ns(number(22)?, hz)),
        is_kernels: number(9)? & KERNEL_THREAD != 0,
    })
}

const fn ticks_to_ns(ticks: u64, hz: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / hz)
}

fn ticks_a_second() -> u64 {
    // SAFETY: takes a number.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(hz).ok().filter(|hz| (1..=1_000_000_000).contains(hz)).unwrap_or(100)
}

/// The clock of a process's CPU time, as `clock_getcpuclockid` makes it (`CPUCLOCK_SCHED`, include/linux/posix-timers_types.h, v6.18).
const fn clock_of(pid: Pid) -> libc::clockid_t {
    const SCHEDULERS: i32 = 2;
    (!pid.get().cast_signed()) << 3 | SCHEDULERS
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; of a clock that is not there the call says so.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    let ns =
        time.tv_sec.cast_unsigned().checked_mul(1_000_000_000)?.checked_add(time.tv_nsec.cast_unsigned());
    ns.filter(|_| !failed)
}

#[cfg(test)]
mod tests {
    use super::{ProcessTimes, parse_stat, read_process_times, read_stolen_ns};
    use energy_trace_model::ids::Pid;

    /// Fields stand where they belong, whatever the name holds.
    #[test]
    fn fields_of_stat() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 2097152 1 0 0 0 3 4 50 60 20 0 1 0 200 1 2\n";
        let ms = 1_000_000;
        let expected =
            ProcessTimes { own_ns: 70 * ms, waited_ns: 1_100 * ms, age_ns: 1_000 * ms, is_kernels: true };
        assert_eq!(parse_stat(line, 3_000 * ms, 100), Some(expected));
        assert_eq!(parse_stat("42 (cut) S 7", 0, 100), None);
    }

    /// This process's time is what its own clock says, and it is not the kernel's; a process that does not exist has none.
    #[test]
    fn of_this_process() {
        let times = read_process_times(Pid::new(std::process::id())).unwrap();
        let own = super::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap();
        assert!(times.own_ns > 0 && times.own_ns <= own && !times.is_kernels, "{times:?} {own}");
        assert_eq!(read_process_times(Pid::new(u32::MAX >> 1)), None);
    }

    /// What the host took is the eighth number of the first line.
    #[test]
    fn stolen_time() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(read_stolen_ns(proc.path()), None);
        std::fs::write(proc.path().join("stat"), "cpu  1 2 3 4 5 6 7 89 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
            .unwrap();
        assert_eq!(read_stolen_ns(proc.path()), Some(890_000_000));
    }
}
