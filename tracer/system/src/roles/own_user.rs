//! A user for processes of ours that nobody else has: whoever has the same user may end a process, whatever else is taken from it.
//!
//! A number that no account has, no range of somebody's containers holds, and no process runs as. Where there is none to be had (in a user
//! namespace of few numbers) it is `nobody`, or no change at all. Leaves out becoming it (`renounce.rs`).

use super::renounce::Identity;
use nix::unistd::{Gid, Uid, geteuid};
use std::ops::Range;

/// Numbers that systemd's list of users gives to nobody (docs/UIDS-GIDS.md, v254: 60578 to 61183 are unused).
const UNUSED: Range<u32> = 60_706..61_184;
/// The last numbers of accounts below which none is taken elsewhere.
const LEAST: u32 = 1_000;
/// Numbers that are tried where these cannot be had.
const TRIES: u32 = 1_000;
/// The user that owns nothing: `nobody` of every distribution, and what the kernel shows for users that it cannot name
/// (`fs.overflowuid`, Documentation/admin-guide/sysctl/fs.rst).
const NOBODY: u32 = 65_534;

/// Which user it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnUser {
    /// Nobody else has it.
    Own(Identity),
    /// `nobody`, as whom other programs run too.
    Nobody(Identity),
    /// The one that this process has already.
    Unchanged,
}

impl OwnUser {
    /// Finds one on this machine. A process that is not root's cannot change its user.
    pub fn find() -> Self {
        if !geteuid().is_root() {
            return Self::Unchanged;
        }
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let machine = Machine {
            accounts: [read("/etc/passwd"), read("/etc/group")],
            ranges: [read("/etc/subuid"), read("/etc/subgid")],
            maps: [read("/proc/self/uid_map"), read("/proc/self/gid_map")],
        };
        machine.find(std::process::id(), runs_as)
    }

    /// The user to become.
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Own(identity) | Self::Nobody(identity) => Some(identity),
            Self::Unchanged => None,
        }
    }
}

/// What says which numbers are taken, of users and of groups.
struct Machine {
    accounts: [String; 2],
    /// Numbers that are lent to users for their containers: `name:first:count` (subuid(5)).
    ranges: [String; 2],
    /// Numbers that there are in this user namespace: `inside outside count` (user_namespaces(7)).
    maps: [String; 2],
}

impl Machine {
    fn find(&self, seed: u32, runs_as: impl Fn(u32) -> bool) -> OwnUser {
        // Two that begin at the same moment do not try the same one first.
        let mut unused = unused_from(seed).chain(self.highest());
        let own = unused.find(|&id| self.has(id) && !self.is_taken(id) && !runs_as(id));
        match own {
            Some(id) => OwnUser::Own(identity(id)),
            None if self.has(NOBODY) => OwnUser::Nobody(identity(NOBODY)),
            None => OwnUser::Unchanged,
        }
    }

    /// The highest numbers that there are below those of `nobody`.
    fn highest(&self) -> impl Iterator<Item = u32> + use<> {
        let ends = ranges_of(&self.maps[0], ' ').map(|range| range.end).max();
        let end = u32::try_from(ends.unwrap_or(0)).unwrap_or(u32::MAX).min(UNUSED.start);
        (end.saturating_sub(TRIES).max(LEAST)..end).rev()
    }

    /// Whether a number is that of a user and of a group here.
    fn has(&self, id: u32) -> bool {
        self.maps.iter().all(|map| ranges_of(map, ' ').any(|range| range.contains(&id.into())))
    }

    fn is_taken(&self, id: u32) -> bool {
        let of_account = |line: &str| line.split(':').nth(2).and_then(|id| id.parse().ok()) == Some(id);
        self.accounts.iter().any(|accounts| accounts.lines().any(of_account))
            || self.ranges.iter().any(|ranges| ranges_of(ranges, ':').any(|range| range.contains(&id.into())))
    }
}

/// The numbers of each line: the first, what stands between, and how many.
fn ranges_of(text: &str, between: char) -> impl Iterator<Item = Range<u64>> {
    text.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(between).filter(|field| !field.is_empty()).collect();
        let (first, count) = match (between, fields.as_slice()) {
            (' ', [inside, _, count]) => (inside, count),
            (':', [_, first, count]) => (first, count),
            _ => return None,
        };
        let first: u64 = first.parse().ok()?;
        Some(first..first.saturating_add(count.trim().parse().ok()?))
    })
}

/// All unused numbers, from one of them on.
fn unused_from(first: u32) -> impl Iterator<Item = u32> {
    let at = UNUSED.start + first % (UNUSED.end - UNUSED.start);
    (at..UNUSED.end).chain(UNUSED.start..at)
}

/// Whether a process has this user. The kernel looks, which is a thousand times as fast as to look into `/proc` (getpriority(2)).
fn runs_as(id: u32) -> bool {
    nix::errno::Errno::clear();
    // SAFETY: takes numbers.
    let niceness = unsafe { libc::getpriority(libc::PRIO_USER, id) };
    niceness != -1 || nix::errno::Errno::last() != nix::errno::Errno::ESRCH
}

fn identity(id: u32) -> Identity {
    Identity { uid: Uid::from_raw(id), gid: Gid::from_raw(id), groups: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, Machine, NOBODY, OwnUser, UNUSED, identity, runs_as};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    fn machine(map: &str) -> Machine {
        let accounts =
            [format!("root:x:0:0::/:/bin/sh\nodd:x:{}:1::/:\n", UNUSED.start), "root:x:0:\n".to_owned()];
        let ranges = [format!("dock:{}:100\n", UNUSED.start + 100), String::new()];
        Machine { accounts, ranges, maps: [map.to_owned(), map.to_owned()] }
    }

    const ALL: &str = "         0          0 4294967295\n";

    /// Numbers of accounts, of containers and of processes are passed over, and two recordings do not begin with the same.
    #[test]
    fn taken_numbers() {
        let found = |seed| machine(ALL).find(seed, |id| id == UNUSED.start + 1);
        assert_eq!(found(0), OwnUser::Own(identity(UNUSED.start + 2)));
        assert_eq!(found(150), OwnUser::Own(identity(UNUSED.start + 200)));
        assert_eq!(found(300), OwnUser::Own(identity(UNUSED.start + 300)));
        assert_eq!(machine(ALL).find(0, |_| true), OwnUser::Nobody(identity(NOBODY)));
    }

    /// In a user namespace only numbers are taken that there are; without one that is free it is `nobody`, else nothing changes.
    #[test]
    fn few_numbers() {
        assert_eq!(machine("0 100000 65536\n").find(7, |_| false), OwnUser::Own(identity(UNUSED.start + 7)));
        assert_eq!(machine("0 100000 5000\n").find(7, |_| false), OwnUser::Own(identity(4_999)));
        assert_eq!(machine("0 1000 1\n").find(7, |_| false), OwnUser::Unchanged);
        let few = format!("0 1000 {LEAST}\n{NOBODY} 9 1\n");
        assert_eq!(machine(&few).find(7, |_| true), OwnUser::Nobody(identity(NOBODY)));
    }

    /// Whether somebody runs as a user is the kernel's word: of a process that has just been started, and not of one that has ended.
    #[test]
    fn who_runs() {
        let free = (2_000_000_000..).find(|&id| !runs_as(id)).unwrap();
        let mut process = Command::new("sleep").arg("60").uid(free).stdin(Stdio::null()).spawn().unwrap();
        let runs = runs_as(free);
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(runs && !runs_as(free));
    }
}
