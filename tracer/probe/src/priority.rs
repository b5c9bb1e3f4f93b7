//! Where the recorder's threads run.
//!
//! A command inherits the CPUs and the niceness with which this program was started (`taskset -c 1 nice
//! energy-trace record …`): they are meant for it. The recorder's threads would wait behind the command there, while
//! its samples and mappings go stale, or for ever behind a real-time one. So they go to the other CPUs, but for those
//! that are kept for somebody (isolated ones), and are not nice; where the others are fewer, they use both. What a
//! control group (cpuset) forbids stays forbidden. Leaves out the threads.

use energy_trace_bpf::sampling::cpus::Cpus;
use energy_trace_system::host::topology::parse_cpu_list;
use energy_trace_system::host::urgency::{niceness, set_niceness};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid as Thread;
use std::path::Path;

/// What a thread had that left the command's CPUs.
pub struct Before {
    /// The CPUs, where it has others now: a thread that is told to stay where it is would not follow when a CPU comes online.
    cpus: Option<CpuSet>,
    niceness: i32,
}

/// Leaves the command's CPUs, and its niceness where that is high; threads and processes that this thread starts from now on do so too.
pub fn leave_command() -> Before {
    let mut before = Before { cpus: None, niceness: niceness() };
    let own = sched_getaffinity(Thread::from_raw(0)).ok();
    if let Some((own, new)) = own.and_then(|own| Some((own, away_from(own)?))) {
        match sched_setaffinity(Thread::from_raw(0), &new) {
            Ok(()) => before.cpus = Some(own),
            Err(error) => log::debug!("the recorder stays on the command's CPUs: {error}"),
        }
    }
    if before.niceness > 0 {
        set_niceness(0);
    }
    before
}

impl Before {
    /// Takes this thread back to where it was.
    pub fn restore(self) {
        let back = self.cpus.map(|cpus| sched_setaffinity(Thread::from_raw(0), &cpus));
        if let Some(Err(error)) = back {
            log::debug!("the CPUs stay as they are: {error}");
        }
        if self.niceness > 0 {
            set_niceness(self.niceness);
        }
    }
}

/// All other CPUs that are nobody's in particular, with these where the others are fewer; `None`: there are none.
fn away_from(own: CpuSet) -> Option<CpuSet> {
    let kept = kept_at(Path::new("/sys/devices/system/cpu"));
    let online: Vec<u32> = Cpus::find().ok()?.online().into_iter().map(|cpu| cpu.get()).collect();
    let has = |cpu: u32| own.is_set(cpu as usize).unwrap_or(true);
    let others: Vec<u32> = online.iter().copied().filter(|cpu| !kept.contains(cpu) && !has(*cpu)).collect();
    let owned = online.iter().filter(|&&cpu| has(cpu)).count();
    let mut set = if others.len() < owned { own } else { CpuSet::new() };
    let added = others.into_iter().filter(|&cpu| set.set(cpu as usize).is_ok()).count();
    (added > 0).then_some(set)
}

/// CPUs that are kept from everybody who was not put there: by `isolcpus=` and `nohz_full=`.
fn kept_at(folder: &Path) -> Vec<u32> {
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    ["isolated", "nohz_full"].into_iter().flat_map(|name| parse_cpu_list(read(name).trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        CpuSet, Thread, kept_at, leave_command, niceness, sched_getaffinity, sched_setaffinity, set_niceness,
    };

    /// A thread that was pinned and nice is neither any more, nor on that CPU where there are others, and is both
    /// again afterwards; isolated CPUs are not taken.
    #[test]
    fn pinned_and_nice_threads() {
        let allowed = || sched_getaffinity(Thread::from_raw(0)).unwrap();
        let count = |set: &CpuSet| (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).count();
        std::thread::spawn(move || {
            let all = count(&allowed());
            let mut first = CpuSet::new();
            let lowest = (0..CpuSet::count()).find(|&cpu| allowed().is_set(cpu) == Ok(true)).unwrap();
            first.set(lowest).unwrap();
            sched_setaffinity(Thread::from_raw(0), &first).unwrap();
            set_niceness(7);
            let before = leave_command();
            assert!(all == 1 || allowed().is_set(lowest) == Ok(false));
            // Lower than before only root may.
            assert!(niceness() == 0 || !nix::unistd::geteuid().is_root());
            before.restore();
            assert_eq!((allowed(), niceness()), (first, 7));
        })
        .join()
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(kept_at(folder.path()).is_empty());
        std::fs::write(folder.path().join("isolated"), "2-3\n").unwrap();
        std::fs::write(folder.path().join("nohz_full"), "(null)\n").unwrap();
        assert_eq!(kept_at(folder.path()), [2, 3]);
    }
}
