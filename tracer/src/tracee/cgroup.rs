//! Control groups: where one lies, what the kernel calls it, its processes, and their CPU time.
//!
//! A name may be a path, a path below one of the mounted hierarchies (a machine may have several: version 1's controllers beside version
//! 2), or a group's own name, as a unit's. Leaves out following the processes: the BPF programs do that, who comes later too.

use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::Pid;
use energy_trace_probe::GroupId;
use std::fs::{read_dir, read_to_string};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where control groups are as a rule.
const USUAL_ROOT: &str = "/sys/fs/cgroup";
/// Levels and folders that are searched for a group's own name.
const LEVELS: usize = 6;
const MOST_FOLDERS: usize = 20_000;

/// Why a control group gives no processes.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// It could not be read.
    #[error("cannot read control group {path}: {source}")]
    Read {
        /// What was read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is none of that name.
    #[error(
        "there is no control group {name} below {}; `systemd-cgls` shows those that there are",
        listed(roots)
    )]
    NotFound {
        /// What was looked for.
        name: String,
        /// Where.
        roots: Vec<PathBuf>,
    },
    /// It is empty.
    #[error("control group {0} has no processes")]
    Empty(PathBuf),
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    /// Its number; 0: the second version's.
    number: u32,
    /// It has the CPU's controllers, whose groups have most processes by themselves.
    of_cpu: bool,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    folder: PathBuf,
    hierarchy: u32,
}

impl Group {
    /// Finds the group that somebody means.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &Path) -> Result<Self, CgroupError> {
        let read = |path: &str| read_to_string(path).unwrap_or_default();
        let mut all = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        if all.is_empty() {
            all.push(Hierarchy { root: USUAL_ROOT.into(), number: 0, of_cpu: true });
        }
        find_in(&all, Path::new(USUAL_ROOT), name)
    }

    /// What the kernel calls it.
    ///
    /// # Errors
    /// When its folder is gone.
    pub fn id(&self) -> Result<GroupId, CgroupError> {
        let path = self.folder.clone();
        let folder = std::fs::metadata(&path).map_err(|source| CgroupError::Read { path, source })?;
        Ok(GroupId { number: folder.ino(), hierarchy: self.hierarchy })
    }

    /// Its processes, and those of all groups in it.
    ///
    /// # Errors
    /// When it cannot be read, or has none.
    pub fn processes(&self) -> Result<Vec<Pid>, CgroupError> {
        let processes = processes_below(&self.folder)?;
        if processes.is_empty() { Err(CgroupError::Empty(self.folder.clone())) } else { Ok(processes) }
    }

    /// CPU time of its processes so far, of those that ended too; `None` where its hierarchy does not count that.
    pub fn cpu_ns(&self) -> Option<u64> {
        let text = |file| read_to_string(self.folder.join(file)).ok();
        if let Some(ns) = text("cpuacct.usage") {
            return ns.trim().parse().ok();
        }
        let stat = text("cpu.stat")?;
        let us: u64 = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()?;
        us.checked_mul(1_000)
    }
}

fn find_in(all: &[Hierarchy], usual: &Path, name: &Path) -> Result<Group, CgroupError> {
    let relative = name.strip_prefix("/").unwrap_or(name);
    let typed = [name.to_owned(), usual.join(relative)].into_iter().filter(|path| path.is_absolute());
    let typed = typed.filter_map(|folder| group_at(all, folder));
    let below = all.iter().filter_map(|hierarchy| group_at(all, hierarchy.root.join(relative)));
    let named = || all.iter().filter_map(|hierarchy| group_at(all, search(&hierarchy.root, relative)?));
    let mut candidates: Vec<Group> = typed.chain(below).collect();
    if candidates.is_empty() {
        candidates = named().collect();
    }
    // Of several, one that has processes.
    let first = candidates.first().cloned();
    let found = candidates.into_iter().find(|group| group.processes().is_ok()).or(first);
    found.ok_or_else(|| CgroupError::NotFound {
        name: name.display().to_string(),
        roots: all.iter().map(|hierarchy| hierarchy.root.clone()).collect(),
    })
}

fn group_at(all: &[Hierarchy], folder: PathBuf) -> Option<Group> {
    let inside = all.iter().filter(|hierarchy| folder.starts_with(&hierarchy.root));
    let hierarchy = inside.max_by_key(|hierarchy| hierarchy.root.as_os_str().len())?.number;
    folder.join("cgroup.procs").exists().then_some(Group { folder, hierarchy })
}

/// A group by its own name, the first on the highest level; `name.scope` as a container's runtime names it too.
fn search(root: &Path, name: &Path) -> Option<PathBuf> {
    let name = name.to_str().filter(|name| !name.is_empty() && !name.contains('/'))?;
    let names = [name.to_owned(), format!("{name}.service"), format!("docker-{name}.scope")];
    let (mut level, mut looked_at) = (vec![root.to_owned()], 0);
    for _ in 0..LEVELS {
        let below: Vec<PathBuf> = level.iter().flat_map(|folder| folders_in(folder)).collect();
        let is_it = |path: &&PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|own| names.iter().any(|n| n == own))
        };
        if let Some(found) = below.iter().find(is_it) {
            return Some(found.clone());
        }
        looked_at += below.len();
        if looked_at > MOST_FOLDERS {
            return None;
        }
        level = below;
    }
    None
}

/// Lines of mountinfo (proc_pid_mountinfo(5)), with the numbers of `/proc/self/cgroup`: the second version first, then the CPU's.
fn hierarchies(mounts: &str, numbers: &str) -> Vec<Hierarchy> {
    let hierarchy = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut words = file_system.split(' ');
        let (kind, options) = (words.next()?, words.nth(1)?);
        let root = PathBuf::from(mount.split(' ').nth(4)?);
        let options: Vec<&str> = options.split(',').collect();
        let of_cpu = options.iter().any(|option| ["cpu", "cpuacct"].contains(option));
        match kind {
            "cgroup2" => Some(Hierarchy { root, number: 0, of_cpu: true }),
            "cgroup" => Some(Hierarchy { root, number: number_of(numbers, &options)?, of_cpu }),
            _ => None,
        }
    };
    let mut all: Vec<Hierarchy> = mounts.lines().filter_map(hierarchy).collect();
    all.order_by_key(|hierarchy| (hierarchy.number != 0, !hierarchy.of_cpu));
    all
}

/// The number of the hierarchy whose controllers are all among the options of a mount.
fn number_of(numbers: &str, options: &[&str]) -> Option<u32> {
    let mut lines = numbers.lines().map(|line| line.splitn(3, ':'));
    lines.find_map(|mut fields| {
        let (number, controllers) = (fields.next()?.parse().ok()?, fields.next()?);
        let named = !controllers.is_empty() && controllers.split(',').all(|name| options.contains(&name));
        named.then_some(number)
    })
}

fn processes_below(folder: &Path) -> Result<Vec<Pid>, CgroupError> {
    let mut processes = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(below) = open.pop() {
        match read_to_string(below.join("cgroup.procs")) {
            // 0 stands for a process outside our pid namespace, which we cannot name.
            Ok(text) => {
                processes.extend(
                    text.lines().filter_map(|line| line.trim().parse::<u32>().ok()).filter(|&pid| pid != 0),
                );
            }
            // A group below ours may vanish or be threaded (cgroup.procs then says EOPNOTSUPP); ours must be readable.
            Err(_) if below != folder => {}
            Err(source) => return Err(CgroupError::Read { path: below.join("cgroup.procs"), source }),
        }
        open.extend(folders_in(&below));
    }
    processes.sort_unstable();
    processes.dedup();
    Ok(processes.into_iter().map(Pid::new).collect())
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn listed(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{CgroupError, Group, Hierarchy, find_in, hierarchies};
    use energy_trace_model::ids::Pid;
    use std::path::Path;

    /// A machine with version 1's controllers beside version 2, and groups with these processes.
    fn hybrid(groups: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Hierarchy>) {
        let root = tempfile::tempdir().unwrap();
        for (group, text) in groups {
            std::fs::create_dir_all(root.path().join(group)).unwrap();
            std::fs::write(root.path().join(group).join("cgroup.procs"), text).unwrap();
        }
        let at = |name: &str, number| Hierarchy { root: root.path().join(name), number, of_cpu: number < 2 };
        let all = vec![at("unified", 0), at("cpu", 1), at("memory", 4)];
        (root, all)
    }

    /// Groups inside the group count, a missing group is an error, and so is an empty one.
    #[test]
    fn reads_the_group_and_those_in_it() {
        let (root, all) = hybrid(&[
            ("cpu/app", "3\n0\n"),
            ("cpu/app/inner", "5\n3\n"),
            ("cpu/empty", ""),
            ("cpu/other", "9\n"),
        ]);
        let find = |name: &str| find_in(&all, root.path(), Path::new(name));
        let processes = find("/app").unwrap().processes().unwrap();
        assert_eq!(processes, [3, 5].map(Pid::new));
        assert!(find(root.path().join("cpu/app/inner").to_str().unwrap()).is_ok());
        assert!(matches!(find("empty").unwrap().processes(), Err(CgroupError::Empty(_))));
        let missing = find("none").unwrap_err().to_string();
        assert!(missing.contains("none") && missing.contains("unified"), "{missing}");
    }

    /// A path with or without the hierarchy in it, a path in one of them, and a unit's or a container's own name mean the same group, with the
    /// hierarchy that it lies in; where several have one of that name it is one with processes.
    #[test]
    fn names_that_people_type() {
        let (root, all) = hybrid(&[
            ("cpu/docker/c0ffee", "7\n"),
            ("memory/docker/c0ffee", "7\n"),
            ("unified/system.slice/web.service", "8\n"),
            ("unified/docker/c0ffee", ""),
        ]);
        let find = |name: &str| find_in(&all, root.path(), Path::new(name)).unwrap();
        let docker = Group { folder: root.path().join("cpu/docker/c0ffee"), hierarchy: 1 };
        for name in ["cpu/docker/c0ffee", "/cpu/docker/c0ffee", "docker/c0ffee", "/docker/c0ffee"] {
            assert_eq!(find(name), docker, "{name}");
        }
        assert_eq!(find("c0ffee"), docker);
        assert_eq!(find("memory/docker/c0ffee").hierarchy, 4);
        for name in ["web.service", "web", "system.slice/web.service"] {
            assert_eq!(
                (find(name).hierarchy, find(name).processes().unwrap()),
                (0, vec![Pid::new(8)]),
                "{name}"
            );
        }
        // What is no group is none, however it is called.
        assert!(find_in(&all, root.path(), root.path()).is_err());
    }

    /// Which hierarchies are mounted, and their numbers.
    #[test]
    fn mounted_hierarchies() {
        let mounts = "\
24 22 0:21 / /proc rw - proc proc rw
31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
33 30 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
34 30 0:29 / /sys/fs/cgroup/odd rw - cgroup cgroup rw,odd
";
        let numbers = "9:name=systemd:/\n4:cpu,cpuacct:/docker/x\n0::/\n";
        let found = hierarchies(mounts, numbers);
        let of: Vec<(&str, u32)> = found.iter().map(|h| (h.root.to_str().unwrap(), h.number)).collect();
        let expected =
            [("/sys/fs/cgroup/unified", 0), ("/sys/fs/cgroup/cpu,cpuacct", 4), ("/sys/fs/cgroup/systemd", 9)];
        assert_eq!(of, expected);
    }

    /// CPU time of either version.
    #[test]
    fn cpu_time_of_groups() {
        let root = tempfile::tempdir().unwrap();
        let group = Group { folder: root.path().to_owned(), hierarchy: 0 };
        assert_eq!(group.cpu_ns(), None);
        std::fs::write(root.path().join("cpu.stat"), "usage_usec 1234\nuser_usec 5\n").unwrap();
        assert_eq!(group.cpu_ns(), Some(1_234_000));
        std::fs::write(root.path().join("cpuacct.usage"), "77\n").unwrap();
        assert_eq!(group.cpu_ns(), Some(77));
    }
}
