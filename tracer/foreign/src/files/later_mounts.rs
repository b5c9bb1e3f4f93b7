//! Files on what was mounted after we began, opened so that it can be unmounted again: an open file keeps the mount busy that it was opened
//! through, and a script that mounts an image, runs its programs and unmounts it would fail because of us.
//!
//! Such a file is opened once more, through a copy of its mount that nobody else has (`open_tree(2)`, which takes CAP_SYS_ADMIN and a mount of
//! this program's own namespace). What lies below, a disk or its image, stays in use until the file is closed.

use super::regular::open_place;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};

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

    /// The same file through a mount of our own, where the one that it was opened through came later and the system allows it.
    pub fn apart(&self, file: File) -> File {
        let reopened = |file: &File| open_place(&copy(file, OpenTreeFlags::empty())?, |_| true);
        self.of_later(&file, reopened).unwrap_or(file)
    }

    /// The same folder, and all that is mounted below it.
    pub fn folder_apart(&self, folder: File) -> File {
        self.of_later(&folder, |folder| copy(folder, OpenTreeFlags::AT_RECURSIVE)).unwrap_or(folder)
    }

    fn of_later(&self, file: &File, copied: impl FnOnce(&File) -> io::Result<File>) -> Option<File> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        let is_later = !self.0.as_ref()?.contains(&found.stx_mnt_id);
        if is_later { copied(file).ok() } else { None }
    }
}

/// The mounts that a process sees (`/proc/PID/mountinfo`); names in it may be any bytes.
pub(crate) fn list_of(process: &str) -> io::Result<String> {
    let mut list = Vec::new();
    File::open(format!("/proc/{process}/mountinfo"))?.take(LONGEST).read_to_end(&mut list)?;
    Ok(String::from_utf8_lossy(&list).into_owned())
}

/// The place of a file in a copy of its mount, which goes when all that was opened through it is closed.
fn copy(file: &File, more: OpenTreeFlags) -> io::Result<File> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(File::from(open_tree(file, "", flags | more)?))
}

#[cfg(test)]
mod tests {
    use super::Mounts;
    use nix::mount::{MsFlags, mount, umount};
    use std::fs::File;
    use std::io::Read as _;

    /// What was mounted later can be unmounted while its files and folders are open, and they can still be read. Needs root.
    #[test]
    fn can_be_unmounted() {
        let (mounts, folder) = (Mounts::now(), tempfile::tempdir().unwrap());
        let place = folder.path();
        mount(Some("none"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        std::fs::write(place.join("file"), "text").unwrap();
        let plain = File::open(place.join("file")).unwrap();
        assert!(umount(place).is_err(), "an open file keeps it");
        let mut file = mounts.apart(plain);
        let root = mounts.folder_apart(File::open(place).unwrap());
        umount(place).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), root.metadata().unwrap().is_dir()), ("text", true));
    }

    /// What was there before is left as it is.
    #[test]
    fn others_are_as_they_were() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mounts::now().of_later(&file, |_| unreachable!()).is_none());
        assert!(Mounts(None).of_later(&file, |_| unreachable!()).is_none());
    }
}
