//! What `/proc` says of running programs: who descends from whom, what they are called, what they take.
//!
//! Leaves out programs that tests start themselves (`process.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A process as it is now.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its pid.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// The kernel's name of its first thread.
    pub name: String,
    /// Its program's file, where that can be seen.
    pub program: Option<PathBuf>,
    /// Resident memory, in KiB.
    pub rss_kib: u64,
    /// CPU time so far, its own.
    pub cpu: Duration,
}

/// All processes.
pub fn all() -> Vec<Seen> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    pids.filter_map(look).collect()
}

/// One process; `None` where it is gone.
pub fn look(pid: u32) -> Option<Seen> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in brackets and may hold anything.
    let (before, after) = stat.rsplit_once(") ")?;
    let name = before.split_once(" (")?.1.to_owned();
    let fields: Vec<&str> = after.split(' ').collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    // proc_pid_stat(5), counted from the state: parent 1, utime 11, stime 12 (in hundredths of a second), rss 21 (in pages).
    let ticks = number(11)? + number(12)?;
    Some(Seen {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        name,
        program: std::fs::read_link(format!("/proc/{pid}/exe")).ok(),
        rss_kib: number(21)? * 4,
        cpu: Duration::from_millis(10 * ticks),
    })
}

/// Memory of a process, in KiB; of pages that several have, its part. What is resident where that is not told.
fn memory_kib(seen: &Seen) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", seen.pid)).unwrap_or_default();
    let part =
        rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok());
    part.unwrap_or(seen.rss_kib)
}

/// A process and all that descend from it, by parents that live.
pub fn family(pid: u32) -> Vec<Seen> {
    let all = all();
    let mut known = BTreeSet::from([pid]);
    loop {
        let more = all.iter().filter(|seen| known.contains(&seen.parent)).map(|seen| seen.pid);
        let more: Vec<u32> = more.filter(|pid| !known.contains(pid)).collect();
        if more.is_empty() {
            return all.into_iter().filter(|seen| known.contains(&seen.pid)).collect();
        }
        known.extend(more);
    }
}

/// What the processes of one program take together, as it is looked at again and again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Most memory of them at one time, in KiB.
    pub most_kib: u64,
    /// How they shared it then: names and KiB.
    pub shares: Vec<(String, u64)>,
    most_resident_kib: u64,
    cpu: BTreeMap<u32, Duration>,
}

impl Watch {
    /// Looks at a process and its descendants that run the same program.
    pub fn look(&mut self, pid: u32) {
        let family = family(pid);
        let program = family.iter().find(|seen| seen.pid == pid).and_then(|seen| seen.program.clone());
        let own =
            family.iter().filter(|seen| seen.pid == pid || program.is_some() && seen.program == program);
        let own: Vec<&Seen> = own.collect();
        self.cpu.extend(own.iter().map(|seen| (seen.pid, seen.cpu)));
        // To tell shared pages apart takes the kernel long: only where there is more than ever before.
        let resident = own.iter().map(|seen| seen.rss_kib).sum();
        if resident <= self.most_resident_kib {
            return;
        }
        self.most_resident_kib = resident;
        let shares: Vec<_> = own.iter().map(|seen| (seen.name.clone(), memory_kib(seen))).collect();
        let kib = shares.iter().map(|(_, kib)| kib).sum();
        if kib > self.most_kib {
            (self.most_kib, self.shares) = (kib, shares);
        }
    }

    /// CPU time that they were seen to have taken.
    pub fn cpu(&self) -> Duration {
        self.cpu.values().sum()
    }

    /// Looks until something has happened; false where that takes longer than the limit.
    pub fn until(&mut self, pid: u32, limit: Duration, mut happened: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + limit;
        while !happened() {
            if Instant::now() > end {
                return false;
            }
            self.look(pid);
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }
}
