//! Files on what was mounted after we began, opened so that it can be unmounted again: an open file keeps the mount busy that it was opened
//! through, and a script that mounts an image, runs its programs and unmounts it would fail because of us.
//!
//! Such a file is opened once more, through a copy of its mount that nobody else has (`open_tree(2)`, which takes CAP_SYS_ADMIN). The copy is made
//! in the mount's own namespace. What lies below, a disk or its image, stays in use until the file is closed.

use super::regular::open_place;
use energy_trace_model::ids::Pid;
use nix::sched::{CloneFlags, setns};
use nix::unistd::{chroot, fchdir};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;

/// Bytes of a list of mounts that are read.
const LONGEST: u64 = 4 << 20;

/// The mounts that were there when we began, by the kernel's numbers; `None`: they could not be read.
#[derive(Debug, Default)]
pub struct Mounts(Option<HashSet<u64>>);

impl Mounts {
    /// Those that are there now.
    pub fn now() -> Self {
        let number = |line: &str| line.split(' ').next()?.parse().ok();
        Self(list_of("self").ok().map(|list| list.lines().filter_map(number).collect()))
    }

    /// The same file of a process through a mount of our own, where the one that it was opened through came later and the system allows it.
    pub fn apart(&self, pid: Pid, file: File) -> File {
        let reopened = |file: &File| open_place(&copy_of(pid, file, OpenTreeFlags::empty())?, |_| true);
        self.of_later(&file, reopened).unwrap_or(file)
    }

    /// The same folder, and all that is mounted below it.
    pub fn folder_apart(&self, pid: Pid, folder: File) -> File {
        self.of_later(&folder, |folder| copy_of(pid, folder, OpenTreeFlags::AT_RECURSIVE)).unwrap_or(folder)
    }

    fn of_later(&self, file: &File, copied: impl FnOnce(&File) -> io::Result<File>) -> Option<File> {
        let is_later = !self.0.as_ref()?.contains(&mount_of(file)?);
        if is_later { copied(file).ok() } else { None }
    }
}

/// The mounts that a process sees (`/proc/PID/mountinfo`); names in it may be any bytes.
pub(crate) fn list_of(process: &str) -> io::Result<String> {
    let mut list = Vec::new();
    File::open(format!("/proc/{process}/mountinfo"))?.take(LONGEST).read_to_end(&mut list)?;
    Ok(String::from_utf8_lossy(&list).into_owned())
}

/// The kernel's number of the mount that a file was opened through.
fn mount_of(file: &File) -> Option<u64> {
    mount_at(file, "", AtFlags::EMPTY_PATH)
}

/// The same of a path. A file system is asked nothing: it may be one that never answers.
fn mount_at(folder: impl AsFd, path: &str, how: AtFlags) -> Option<u64> {
    told_mount(&statx(folder, path, how | AtFlags::STATX_DONT_SYNC, StatxFlags::MNT_ID).ok()?)
}

/// `None` where the kernel does not tell (before 5.8).
const fn told_mount(found: &Statx) -> Option<u64> {
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 { None } else { Some(found.stx_mnt_id) }
}

/// The place of a process's file in a copy of its mount, which goes when all that was opened through it is closed.
fn copy_of(pid: Pid, file: &File, more: OpenTreeFlags) -> io::Result<File> {
    copy(file, more).or_else(|_| copy_there(pid, file, more))
}

/// The same in the process's mount namespace, where this thread is for that call alone; not of what is the root there, which nobody unmounts.
fn copy_there(pid: Pid, file: &File, more: OpenTreeFlags) -> io::Result<File> {
    let there = File::open(format!("/proc/{pid}/ns/mnt"))?;
    let (here, root) = (File::open("/proc/thread-self/ns/mnt")?, File::open("/")?);
    setns(there, CloneFlags::CLONE_NEWNS)?;
    let is_at_root = mount_at(CWD, "/", AtFlags::empty()) == mount_of(file);
    let copied = if is_at_root { Err(io::ErrorKind::Unsupported.into()) } else { copy(file, more) };
    let back = setns(here, CloneFlags::CLONE_NEWNS).and_then(|()| fchdir(&root)).and_then(|()| chroot("."));
    if back.is_err() {
        // Whoever follows paths elsewhere would be led astray. Another process takes its place.
        std::process::abort();
    }
    copied
}

fn copy(file: &File, more: OpenTreeFlags) -> io::Result<File> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(File::from(open_tree(file, "", flags | more)?))
}

#[cfg(test)]
mod tests {
    use super::{AtFlags, CWD, Mounts, Pid, StatxFlags, statx, told_mount};
    use nix::mount::{MsFlags, mount, umount};
    use nix::sched::{CloneFlags, unshare};
    use std::fs::File;
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// The same in a mount namespace of another process, which this thread leaves again.
    fn can_be_unmounted_elsewhere(mounts: &Mounts) {
        const MOUNTS: &str = "mount -t tmpfs none $0; echo text > $0/file; echo; read line || for try in $(seq 500); do umount $0 && exit; sleep 0.01; done; exit 1";
        let folder = tempfile::tempdir().unwrap();
        // Threads share a root; the peeker has one thread.
        unshare(CloneFlags::CLONE_FS).unwrap();
        let mut other = Command::new("unshare");
        other.args(["-m", "sh", "-ec", MOUNTS]).arg(folder.path());
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let inside = format!("/proc/{}/root{}/file", other.id(), folder.path().display());
        let mut file = mounts.apart(Pid::new(other.id()), File::open(inside).unwrap());
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success(), "it is busy");
        assert!(!folder.path().join("file").exists());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text\n");
    }

    /// What was mounted later can be unmounted while its files and folders are open, and they can still be read. Needs root.
    #[test]
    fn can_be_unmounted() {
        let (mounts, folder) = (Mounts::now(), tempfile::tempdir().unwrap());
        let place = folder.path();
        mount(Some("none"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        std::fs::write(place.join("file"), "text").unwrap();
        let plain = File::open(place.join("file")).unwrap();
        assert!(umount(place).is_err(), "an open file keeps it");
        let pid = Pid::new(std::process::id());
        let mut file = mounts.apart(pid, plain);
        let root = mounts.folder_apart(pid, File::open(place).unwrap());
        // A process that another test is making has what is open here, for a moment.
        let mut tries = (0..500).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            umount(place)
        });
        assert!(tries.any(|tried| tried.is_ok()), "it is busy");
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), root.metadata().unwrap().is_dir()), ("text", true));
        // Not beside this: a process that is being made has what is open here.
        can_be_unmounted_elsewhere(&mounts);
    }

    /// A kernel that does not tell a file's mount says 0, which is none that was there before.
    #[test]
    fn a_kernel_that_does_not_tell() {
        let mut found = statx(CWD, "/", AtFlags::empty(), StatxFlags::MNT_ID).unwrap();
        assert_eq!(told_mount(&found), Some(found.stx_mnt_id));
        (found.stx_mask, found.stx_mnt_id) = (StatxFlags::BASIC_STATS.bits(), 0);
        assert_eq!(told_mount(&found), None);
    }

    /// What was there before is left as it is.
    #[test]
    fn others_are_as_they_were() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mounts::now().of_later(&file, |_| unreachable!()).is_none());
        assert!(Mounts(None).of_later(&file, |_| unreachable!()).is_none());
    }
}
