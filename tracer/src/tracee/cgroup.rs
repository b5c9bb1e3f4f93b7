//! The processes of a control group.
//!
//! Reads `cgroup.procs` of the group and of the groups in it, once, at the start; what these processes start later is followed like any
//! child. A process that is moved into the group later is not.

use energy_trace_model::ids::Pid;
use std::io;
use std::path::{Path, PathBuf};

/// Why a control group gives no processes.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// It could not be read.
    #[error(
        "cannot read control group {path}: {source}; name a directory under {root}, as `systemd-cgls` shows them"
    )]
    Read {
        /// What was read.
        path: PathBuf,
        /// Where control groups are.
        root: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is empty.
    #[error("control group {0} has no processes")]
    Empty(PathBuf),
}

/// The processes of `group` and of all groups in it: an absolute path below the mount point `root`, or a path relative to it.
pub fn read_processes_at(root: &Path, group: &Path) -> Result<Vec<Pid>, CgroupError> {
    let full = if group.starts_with(root) { group.to_owned() } else { root.join(strip_slash(group)) };
    let mut processes = Vec::new();
    let mut open = vec![full.clone()];
    while let Some(folder) = open.pop() {
        match read_group(&folder, &mut open) {
            Ok(more) => processes.extend(more),
            // A group below ours may vanish or be threaded (cgroup.procs then says EOPNOTSUPP); ours must be readable.
            Err(_) if folder != full => {}
            Err(source) => {
                return Err(CgroupError::Read {
                    path: folder.join("cgroup.procs"),
                    root: root.to_owned(),
                    source,
                });
            }
        }
    }
    processes.sort_unstable();
    processes.dedup();
    if processes.is_empty() { Err(CgroupError::Empty(full)) } else { Ok(processes) }
}

fn strip_slash(group: &Path) -> &Path {
    group.strip_prefix("/").unwrap_or(group)
}

fn read_group(folder: &Path, open: &mut Vec<PathBuf>) -> io::Result<Vec<Pid>> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs"))?;
    for entry in std::fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open.push(entry.path());
        }
    }
    // 0 stands for a process outside our pid namespace, which we cannot name.
    Ok(text
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|&pid| pid != 0)
        .map(Pid::new)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{CgroupError, read_processes_at};
    use std::path::Path;

    /// Groups inside the group count, a missing group is an error, and so is an empty one.
    #[test]
    fn reads_the_group_and_those_in_it() {
        let root = tempfile::tempdir().unwrap();
        for (group, text) in [("app", "3\n0\n"), ("app/inner", "5\n3\n"), ("empty", ""), ("other", "9\n")] {
            let folder = root.path().join(group);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.procs"), text).unwrap();
        }
        let read = |group: &str| read_processes_at(root.path(), Path::new(group));
        let numbers: Vec<u32> =
            read("/app").unwrap().into_iter().map(energy_trace_model::ids::Pid::get).collect();
        assert_eq!(numbers, [3, 5]);
        assert!(read(root.path().join("app/inner").to_str().unwrap()).is_ok());
        assert!(matches!(read("empty"), Err(CgroupError::Empty(_))));
        assert!(matches!(read("none"), Err(CgroupError::Read { .. })));
    }
}
