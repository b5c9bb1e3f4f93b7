//! What a tracer could leave behind: processes, BPF programs, probes, mounts, sockets, temporary files.
//!
//! Other tracers may run on the machine, so only what no process holds counts as left, and temporary files of one's own folder. Leaves out the
//! recording.

use energy_trace_tests::place::{eventually, text};
use energy_trace_tests::processes;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The variable that marks the processes of a run: tracer, children, target.
pub(super) const VARIABLE: &str = "ENERGY_TRACE_KILL_TEST";

/// The processes of a run, by what stands in their environment.
pub(super) fn processes(mark: &Path) -> Vec<u32> {
    let word = [VARIABLE.as_bytes(), b"=", mark.as_os_str().as_bytes()].concat();
    let has = |pid: u32| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|&byte| byte == 0).any(|entry| entry == word)
    };
    processes::all().into_iter().map(|seen| seen.pid).filter(|&pid| has(pid)).collect()
}

/// What there was before a run.
pub(super) struct Before {
    orphans: BTreeSet<u32>,
    places: Vec<BTreeSet<String>>,
}

/// Files of the kernel that list what programs may leave: probes by name, mounts.
const LISTS: [&str; 3] =
    ["/sys/kernel/tracing/uprobe_events", "/sys/kernel/tracing/kprobe_events", "/proc/self/mounts"];

impl Before {
    pub(super) fn look() -> Self {
        Self { orphans: orphans(), places: LISTS.map(lines).to_vec() }
    }

    /// Fails where something is there that was not, within a minute: the kernel takes away programs a moment after their last user.
    #[track_caller]
    pub(super) fn assert_nothing_left(&self, temporary: &Path) {
        eventually("the end of all BPF programs", || orphans().is_subset(&self.orphans));
        for (list, before) in LISTS.iter().zip(&self.places) {
            let new: Vec<String> =
                lines(list).difference(before).filter(|line| is_ours(line)).cloned().collect();
            assert!(new.is_empty(), "{list}: {new:?}");
        }
        let sockets: Vec<String> = lines("/proc/net/unix")
            .into_iter()
            .filter(|line| line.contains(&*temporary.to_string_lossy()))
            .collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        let files: Vec<_> =
            fs::read_dir(temporary).into_iter().flatten().flatten().map(|file| file.path()).collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

fn is_ours(line: &str) -> bool {
    line.contains("energy") || line.contains("et-")
}

fn lines(file: &str) -> BTreeSet<String> {
    text(&fs::read(file).unwrap_or_default()).lines().map(str::to_owned).collect()
}

/// BPF programs that no process holds.
fn orphans() -> BTreeSet<u32> {
    let mut programs = programs();
    for held in held() {
        programs.remove(&held);
    }
    programs
}

/// Numbers of all BPF programs (`BPF_PROG_GET_NEXT_ID`, bpf(2)).
fn programs() -> BTreeSet<u32> {
    const BPF_PROG_GET_NEXT_ID: libc::c_int = 11;
    let mut found = BTreeSet::new();
    let mut attributes = [0_u32; 4];
    loop {
        // SAFETY: the kernel reads and writes `attributes`, which lives, and whose size it is told.
        let done = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_PROG_GET_NEXT_ID,
                attributes.as_mut_ptr(),
                size_of_val(&attributes),
            )
        };
        if done != 0 {
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
            return found;
        }
        found.insert(attributes[1]);
        attributes = [attributes[1], 0, 0, 0];
    }
}

/// Numbers of programs that processes hold, by their open files or links (proc_pid_fdinfo(5)).
fn held() -> BTreeSet<u32> {
    let mut held = BTreeSet::new();
    for seen in processes::all() {
        let files = fs::read_dir(format!("/proc/{}/fdinfo", seen.pid)).into_iter().flatten().flatten();
        for file in files {
            let facts = text(&fs::read(file.path()).unwrap_or_default());
            let number = facts.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
            held.extend(number.map(|number: u32| number));
        }
    }
    held
}
