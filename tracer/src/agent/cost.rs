//! What the agent itself takes: CPU time and memory of the recorder and of the processes that it has started.
//!
//! Leaves out the time of BPF programs, which is that of whoever they interrupt (`session/own_share.rs`).

use energy_trace_model::ids::Pid;
use energy_trace_system::host::process_times::read_process_times;
use std::collections::BTreeMap;

/// Processes of a recording: what there are beyond is not looked at.
const MOST: usize = 64;

/// CPU time so far of each process, of those that have ended too.
pub(crate) struct Cost {
    recorder: Pid,
    cpu_ns: BTreeMap<Pid, u64>,
}

impl Cost {
    /// Of a recorder and all below it.
    pub(crate) const fn of(recorder: nix::unistd::Pid) -> Self {
        Self { recorder: Pid::new(recorder.as_raw().cast_unsigned()), cpu_ns: BTreeMap::new() }
    }

    /// CPU time in nanoseconds so far, and resident bytes now.
    pub(crate) fn now(&mut self) -> (u64, u64) {
        let mut resident = 0_u64;
        for pid in self.processes() {
            let Some(times) = read_process_times(pid) else { continue };
            let known = self.cpu_ns.entry(pid).or_default();
            *known = (*known).max(times.own_ns);
            resident = resident.saturating_add(resident_bytes(pid).unwrap_or(0));
        }
        (self.cpu_ns.values().fold(0, |sum, ns| sum.saturating_add(*ns)), resident)
    }

    fn processes(&self) -> Vec<Pid> {
        let mut found = vec![self.recorder];
        let mut at = 0;
        while let Some(&pid) = found.get(at).filter(|_| found.len() < MOST) {
            found.extend(children_of(pid));
            at += 1;
        }
        found
    }
}

/// By all of its threads; none where the kernel does not list them (`CONFIG_PROC_CHILDREN`).
fn children_of(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::new).collect::<Vec<_>>()
        })
        .collect()
}

/// The second number of proc_pid_statm(5), in pages.
fn resident_bytes(pid: Pid) -> Option<u64> {
    let pages: u64 =
        std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages.saturating_mul(u64::try_from(page).unwrap_or(4096)))
}

#[cfg(test)]
mod tests {
    use super::{Cost, Pid, resident_bytes};
    use std::collections::BTreeMap;
    use std::process::{Command, Stdio};

    /// This process and a child of it; the child's time stays when it has ended.
    #[test]
    fn of_this_process() {
        let recorder = Pid::new(std::process::id());
        let mut cost = Cost { recorder, cpu_ns: BTreeMap::new() };
        let loops = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; read line";
        let mut child = Command::new("sh").args(["-c", loops]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::new(child.id());
        let worked = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            cost.now();
            cost.cpu_ns.get(&pid).is_some_and(|&ns| ns > 0)
        });
        let (before, resident) = cost.now();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(worked && resident > resident_bytes(recorder).unwrap() / 2, "{:?}", cost.cpu_ns);
        assert!(cost.now().0 >= before && cost.cpu_ns.contains_key(&pid));
    }
}
