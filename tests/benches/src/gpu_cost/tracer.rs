//! The counters of a running energy-trace: its programs on uprobes by the kernel's count, and its own CPU time. Read from outside.

use crate::cost::probe_stats::parse_field;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `BPF_PROG_TYPE_KPROBE` (include/uapi/linux/bpf.h, v6.1).
const KPROBE: u64 = 2;

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) seconds: f64,
    /// Nanoseconds in the programs on calls, and runs of them.
    pub(super) run_ns: u64,
    pub(super) runs: u64,
    /// CPU time of the process.
    pub(super) cpu_ns: u64,
}

/// Looks at a process in the middle half of a run of this length; `None` where it cannot.
pub(super) fn watch(pid: u32, length: Duration) -> Option<Seen> {
    // The baseline before the start takes a second, the start another.
    sleep(Duration::from_secs_f64(2.5) + length / 4);
    let (from, begun) = (read(pid)?, Instant::now());
    sleep(length / 2);
    let until = read(pid)?;
    Some(Seen {
        seconds: begun.elapsed().as_secs_f64(),
        run_ns: until.run_ns - from.run_ns,
        runs: until.runs - from.runs,
        cpu_ns: until.cpu_ns - from.cpu_ns,
    })
}

fn read(pid: u32) -> Option<Seen> {
    let mut seen = Seen { cpu_ns: read_cpu_ns(pid)?, ..Seen::default() };
    let (mut known, entries) = (Vec::new(), fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?);
    for entry in entries.flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let field = |key: &str| parse_field(&text, key);
        // A program is open more than once.
        let Some(id) =
            field("prog_id").filter(|id| field("prog_type") == Some(KPROBE) && !known.contains(id))
        else {
            continue;
        };
        known.push(id);
        seen.run_ns += field("run_time_ns").unwrap_or(0);
        seen.runs += field("run_cnt").unwrap_or(0);
    }
    Some(seen)
}

/// Of all its threads that live (`/proc/PID/task/TID/schedstat`, first field).
fn read_cpu_ns(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let time = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Some(tasks.flatten().filter_map(time).sum())
}
