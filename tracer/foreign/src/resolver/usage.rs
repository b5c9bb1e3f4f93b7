//! What the resolver's processes have taken of the CPUs, from `/proc`. Leaves out who asks.

use energy_trace_model::ids::Pid;
use std::time::Duration;

/// How long a process of one thread has waited for a CPU that others had: the second number of its `schedstat`
/// (Documentation/scheduler/sched-stats.rst, v6.1).
pub(super) fn waited_for_a_cpu(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// CPU time of a process, its children, and those that it has collected.
pub(crate) fn cpu_ns_of_all(pid: Pid) -> u64 {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let ran = |pid: &str| -> u64 {
        let text = read(format!("/proc/{pid}/schedstat"));
        text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    };
    let children = read(format!("/proc/{pid}/task/{pid}/children"));
    let living: u64 = children.split_whitespace().map(ran).sum();
    living + ran(&pid.to_string()) + collected_ns(&read(format!("/proc/{pid}/stat")))
}

/// `cutime` and `cstime` of `/proc/PID/stat`, the 16th and 17th field (proc(5)), in ticks of a hundredth of a second on every 64-bit kernel. The
/// name, in brackets, may hold anything.
fn collected_ns(stat: &str) -> u64 {
    let Some((_, behind)) = stat.rsplit_once(')') else { return 0 };
    let ticks = behind.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok());
    ticks.sum::<u64>().saturating_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::{collected_ns, waited_for_a_cpu};
    use std::process::Command;
    use std::time::Duration;

    /// Of two programs that want the same CPU each waits for it.
    #[test]
    fn waits_for_a_cpu() {
        let spin = || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
        let mut both = [spin().unwrap(), spin().unwrap()];
        let waited = |pid: u32| waited_for_a_cpu(pid.cast_signed());
        while both.iter().any(|one| waited(one.id()) < Duration::from_millis(20)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for one in &mut both {
            one.kill().and_then(|()| one.wait()).unwrap();
        }
        assert_eq!(waited(both[0].id()), Duration::ZERO);
    }

    /// The fields behind the name count, whatever brackets the name has; a text that is none says nothing.
    #[test]
    fn names_with_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 21 20 20 0 1 0 9";
        assert_eq!(collected_ns(stat), 41 * 10_000_000);
        assert_eq!(collected_ns("7"), 0);
    }
}
