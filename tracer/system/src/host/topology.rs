//! Which socket, die and core each CPU belongs to, as sysfs tells it. Leaves out caches and NUMA nodes.

use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{CpuId, SocketId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The tree that says how the CPUs are arranged: the one that power is read from, or this machine's where that has no CPUs (a tree of
/// counters only).
pub fn tree_of_cpus(sysfs: &Path) -> &Path {
    if read_sockets_at(sysfs).is_empty() { Path::new("/sys") } else { sysfs }
}

/// The socket of each CPU that is online, under the sysfs root `sysfs`.
///
/// A CPU whose socket the kernel does not say (`-1` on some virtual machines, or no file) belongs to socket 0. Without the list of CPUs
/// that are online (a tree that has none) the map is empty.
pub fn read_sockets_at(sysfs: &Path) -> BTreeMap<CpuId, SocketId> {
    let root = sysfs.join("devices/system/cpu");
    let online = fs::read_to_string(root.join("online")).unwrap_or_default();
    let socket = |cpu: u32| {
        let path = root.join(format!("cpu{cpu}/topology/physical_package_id"));
        let text = fs::read_to_string(path).unwrap_or_default();
        SocketId::new(text.trim().parse().unwrap_or(0))
    };
    parse_cpu_list(online.trim()).into_iter().map(|cpu| (CpuId::new(cpu), socket(cpu))).fill_map()
}

/// The CPUs that share a core, under the sysfs root `sysfs`: one list for each core that has several which are online.
pub fn read_cores_at(sysfs: &Path) -> Vec<Vec<CpuId>> {
    let root = sysfs.join("devices/system/cpu");
    let online = parse_cpu_list(fs::read_to_string(root.join("online")).unwrap_or_default().trim());
    let core = |cpu: &u32| {
        let path = root.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        let threads = parse_cpu_list(fs::read_to_string(path).unwrap_or_default().trim());
        threads.into_iter().filter(|thread| online.contains(thread)).collect::<Vec<u32>>()
    };
    let cores: BTreeSet<Vec<u32>> = online.iter().map(core).filter(|core| core.len() > 1).fill_set();
    cores.into_iter().map(|core| core.into_iter().map(CpuId::new).collect()).collect()
}

/// Where a CPU sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its socket.
    pub socket: u32,
    /// Its die within the socket.
    pub die: u32,
    /// The first CPU of its core.
    pub first: u32,
    /// The last CPU of its core: another one where a core has two threads.
    pub last: u32,
}

/// Where a CPU sits, under the sysfs root; what the kernel does not say is 0, and a core of which it says nothing is the CPU alone.
pub fn read_place_at(sysfs: &Path, cpu: u32) -> Place {
    let root = sysfs.join(format!("devices/system/cpu/cpu{cpu}/topology"));
    let text = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let number = |file: &str| text(file).trim().parse().unwrap_or(0);
    let threads = parse_cpu_list(text("thread_siblings_list").trim());
    Place {
        socket: number("physical_package_id"),
        die: number("die_id"),
        first: threads.first().copied().unwrap_or(cpu),
        last: threads.last().copied().unwrap_or(cpu),
    }
}

/// Parses the kernel's CPU list (`0-3,8`); what is not a number or a range is left out, and so is a range of more than 65,536 CPUs.
pub fn parse_cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<(u32, u32)> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last - first < 1 << 16).then_some((first, last))
    };
    text.split(',').filter_map(range).flat_map(|(first, last)| first..=last).collect()
}

#[cfg(test)]
mod tests {
    use super::{Place, parse_cpu_list, read_cores_at, read_place_at, read_sockets_at};
    use energy_trace_model::ids::{CpuId, SocketId};
    use std::fs;

    /// Single CPUs, ranges and nonsense.
    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5,7-7"), [0, 1, 2, 5, 7]);
        assert_eq!(parse_cpu_list(""), Vec::<u32>::new());
        assert_eq!(parse_cpu_list("3-1,x,0-4294967295,4"), [4]);
    }

    /// CPUs find their sockets, and a CPU that has none (-1) is of socket 0.
    #[test]
    fn sockets_of_a_tree() {
        let tree = tempfile::tempdir().unwrap();
        let cpu = tree.path().join("devices/system/cpu");
        for (n, socket) in [(0, "0\n"), (1, "1\n"), (2, "-1\n")] {
            let dir = cpu.join(format!("cpu{n}/topology"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("physical_package_id"), socket).unwrap();
        }
        fs::write(cpu.join("online"), "0-2\n").unwrap();
        let sockets = read_sockets_at(tree.path());
        let expected = [(0, 0), (1, 1), (2, 0)].map(|(c, s)| (CpuId::new(c), SocketId::new(s)));
        assert_eq!(sockets.into_iter().collect::<Vec<_>>(), expected);
    }

    /// Two cores of two threads each, one of whose threads is offline: one core is shared. A machine that says nothing has none.
    #[test]
    fn cores_of_a_tree() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(read_cores_at(tree.path()), Vec::<Vec<CpuId>>::new());
        let cpu = tree.path().join("devices/system/cpu");
        for (n, threads) in [(0, "0,2\n"), (1, "1,3\n"), (2, "0,2\n"), (3, "1,3\n")] {
            let dir = cpu.join(format!("cpu{n}/topology"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("thread_siblings_list"), threads).unwrap();
        }
        fs::write(cpu.join("online"), "0-2\n").unwrap();
        assert_eq!(read_cores_at(tree.path()), [vec![CpuId::new(0), CpuId::new(2)]]);
    }

    /// A CPU of the second die with its sibling, and one of which nothing is known.
    #[test]
    fn places() {
        let tree = tempfile::tempdir().unwrap();
        let dir = tree.path().join("devices/system/cpu/cpu9/topology");
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in
            [("physical_package_id", "1\n"), ("die_id", "2\n"), ("thread_siblings_list", "9,41\n")]
        {
            fs::write(dir.join(file), text).unwrap();
        }
        assert_eq!(read_place_at(tree.path(), 9), Place { socket: 1, die: 2, first: 9, last: 41 });
        assert_eq!(read_place_at(tree.path(), 3), Place { socket: 0, die: 0, first: 3, last: 3 });
    }
}
