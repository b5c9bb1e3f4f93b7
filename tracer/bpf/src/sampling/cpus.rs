//! The CPUs: which there are, and a visit to each that ends its open slice.
//!
//! The kernel itself is asked: files in `/sys` may show fewer CPUs than there are (lxcfs in a container, a mount above them), while targets
//! and the recorder's own affinity go by the kernel's. Where a file says the same as the kernel, it is read from then on: that is cheaper.

use crate::error::ProbeError;
use energy_trace_model::ids::CpuId;
use energy_trace_system::host::topology::parse_cpu_list;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid as Thread;
use perf_event::Builder;
use perf_event::events::Software;
use std::io;
use std::path::Path;

const FOLDER: &str = "/sys/devices/system/cpu";
/// No kernel has more CPUs (`NR_CPUS`, arch/x86/Kconfig, v6.18).
const MOST: u32 = 8192;
/// How often it is looked which CPUs are online: by a file, and by asking for each.
const READ_EVERY_NS: u64 = 100_000_000;
const ASK_EVERY_NS: u64 = 1_000_000_000;

/// The CPUs of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    bound: u32,
    /// The file of those that are online says what the kernel says.
    by_file: bool,
}

/// What the kernel says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Online,
    Offline,
    /// No CPU may ever have it, nor any above.
    Beyond,
}

impl Cpus {
    /// Asks the kernel, or files where it does not answer.
    ///
    /// # Errors
    /// When neither answers.
    pub fn find() -> Result<Self, ProbeError> {
        let read = |name| read_list_at(Path::new(FOLDER), name);
        match ask_all(ask) {
            Ok((bound, online)) => {
                Ok(Self { bound, by_file: read("online").is_ok_and(|read| read == online) })
            }
            Err(error) => {
                log::debug!("the kernel does not say which CPUs there are: {error}");
                let bound =
                    read("possible")?.into_iter().max().map_or(1, |highest| highest.saturating_add(1));
                Ok(Self { bound, by_file: true })
            }
        }
    }

    /// One more than the highest number that a CPU may ever have, whether it is there or not: maps that CPUs index are made before.
    pub const fn bound(self) -> u32 {
        self.bound
    }

    /// Those that are online now.
    pub fn online(self) -> Vec<CpuId> {
        let read = || read_list_at(Path::new(FOLDER), "online").ok();
        let asked = || ask_all(ask).ok().map(|(_, online)| online);
        let online = if self.by_file { read().or_else(asked) } else { asked().or_else(read) };
        online.unwrap_or_default().into_iter().map(CpuId::new).collect()
    }

    /// How often it may be looked which are online.
    pub(crate) const fn look_every_ns(self) -> u64 {
        if self.by_file { READ_EVERY_NS } else { ASK_EVERY_NS }
    }
}

/// How many CPUs are online, whichever of them this process may use.
pub fn online_cpus() -> usize {
    Cpus::find().map_or(1, |cpus| cpus.online().len().max(1))
}

fn read_list_at(folder: &Path, name: &str) -> io::Result<Vec<u32>> {
    Ok(parse_cpu_list(std::fs::read_to_string(folder.join(name))?.trim()))
}

/// One more than the highest number, and the CPUs that are online.
fn ask_all(ask: impl Fn(u32) -> io::Result<Answer>) -> io::Result<(u32, Vec<u32>)> {
    let mut online = Vec::new();
    for cpu in 0..MOST {
        match ask(cpu)? {
            Answer::Online => online.push(cpu),
            Answer::Offline => (),
            Answer::Beyond => return Ok((cpu.max(1), online)),
        }
    }
    Ok((MOST, online))
}

/// An event that counts nothing is opened there: the kernel says `EINVAL` of a number that it has no room for, and `ENODEV` of a CPU that is
/// not online (`perf_event_alloc`, `perf_event_open`, kernel/events/core.c, v5.10 and v6.18).
fn ask(cpu: u32) -> io::Result<Answer> {
    match Builder::new(Software::DUMMY).any_pid().one_cpu(cpu as usize).build() {
        Ok(_) => Ok(Answer::Online),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENODEV) => Ok(Answer::Offline),
            Some(libc::EINVAL) if cpu > 0 => Ok(Answer::Beyond),
            _ => Err(error),
        },
    }
}

/// Runs on each CPU for a moment: what ran there is switched out, and its slice ends. The visits are made by a thread of its own, so that
/// nobody's affinity changes, or by this one where there is no other to be had. Gives the CPUs that this process may not use, whose slices
/// stay open.
pub fn visit(cpus: &[CpuId]) -> Vec<CpuId> {
    std::thread::scope(|scope| {
        let visitor = std::thread::Builder::new().spawn_scoped(scope, || visit_from_here(cpus));
        // The visitor does not panic.
        visitor.map(|visitor| visitor.join().unwrap_or_default()).unwrap_or_else(|_| {
            let before = sched_getaffinity(Thread::from_raw(0));
            let missed = visit_from_here(cpus);
            // What it was before is allowed.
            let _ = before.and_then(|before| sched_setaffinity(Thread::from_raw(0), &before));
            missed
        })
    })
}

fn visit_from_here(cpus: &[CpuId]) -> Vec<CpuId> {
    let is_visited = |cpu: CpuId| {
        let mut set = CpuSet::new();
        let is_there = set.set(cpu.index()).is_ok() && sched_setaffinity(Thread::from_raw(0), &set).is_ok();
        if is_there {
            std::thread::yield_now();
        }
        is_there
    };
    cpus.iter().copied().filter(|&cpu| !is_visited(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Answer, Cpus, MOST, ask_all, read_list_at};
    use std::io;

    /// CPUs are what the kernel says of each number: holes and CPUs that are offline count for the bound, and numbers end where it says so.
    #[test]
    fn the_kernel_is_asked_for_each() {
        let of = |answers: &'static [Answer]| {
            ask_all(|cpu| Ok(answers.get(cpu as usize).copied().unwrap_or(Answer::Beyond))).unwrap()
        };
        assert_eq!(of(&[Answer::Online, Answer::Offline, Answer::Online, Answer::Offline]), (4, vec![0, 2]));
        assert_eq!(of(&[]), (1, vec![]));
        assert_eq!(ask_all(|_| Ok(Answer::Offline)).unwrap().0, MOST);
        assert!(ask_all(|_| Err(io::ErrorKind::PermissionDenied.into())).is_err());
    }

    /// What the kernel says is what the file says, where nobody replaced that.
    #[test]
    fn both_ways_agree() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_list_at(folder.path(), "online").is_err());
        std::fs::write(folder.path().join("online"), "0-1,3\n").unwrap();
        assert_eq!(read_list_at(folder.path(), "online").unwrap(), [0, 1, 3]);
        let cpus = Cpus::find().unwrap();
        let [asked, read] = [false, true].map(|by_file| Cpus { by_file, ..cpus }.online());
        assert_eq!(asked, read);
        assert!(read.iter().all(|cpu| cpu.get() < cpus.bound()) && !read.is_empty());
    }
}
