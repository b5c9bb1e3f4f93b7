//! The root folder of a process, kept open, so that its files are found after it has ended, under the paths that it knew them by.
//!
//! A container has another root than this program. Links are followed inside that root only. What was mounted below the root in the
//! process's own mount namespace is gone with the namespace: files there are found while one of its processes lives.

use super::regular::open_place;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::living::of_living;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The root folder of a process.
#[derive(Clone, Debug, Default)]
pub struct Root(Option<Arc<Folder>>);

#[derive(Debug)]
struct Folder {
    open: OwnedFd,
    /// Where it lies in its mount namespace: `/`, but for a process that called `chroot`.
    place: PathBuf,
}

impl Root {
    /// Opens a file under this root by the path that the process knows; regular files only.
    ///
    /// # Errors
    /// When the system cannot open it, or it is no regular file. Without `follow` a link in the path's last part is none.
    pub fn open(&self, path: &Path, follow: bool) -> io::Result<File> {
        self.open_if(path, follow, |_| true)
    }

    /// The same, where the file is the one that is meant.
    ///
    /// # Errors
    /// As above, and where it is another file.
    pub fn open_if(
        &self,
        path: &Path,
        follow: bool,
        is_meant: impl FnOnce(&Metadata) -> bool,
    ) -> io::Result<File> {
        let mut flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        if !follow {
            flags |= OFlag::O_NOFOLLOW;
        }
        open_place(&self.open_as(path, flags)?, is_meant)
    }

    /// Opens a folder under this root, as a place only.
    ///
    /// # Errors
    /// When the system cannot open it, or it is no folder.
    pub fn folder(&self, path: &Path) -> io::Result<File> {
        self.open_as(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
    }

    fn open_as(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        let how = OpenHow::new().flags(flags);
        let opened = match &self.0 {
            None => openat2(AT_FDCWD, path, how.resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS))?,
            Some(root) => {
                let inside = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
                openat2(&root.open, path, how.resolve(inside))?
            }
        };
        Ok(File::from(opened))
    }

    /// The root of a process that lives.
    ///
    /// # Errors
    /// When there is no such process, or it may not be looked at.
    pub fn of_process(pid: Pid) -> io::Result<Self> {
        let (folder, place) = folder_of(pid)?;
        Ok(Self::at(folder, place))
    }

    /// The root that an open folder is, which lies there in its mount namespace.
    pub fn at(open: File, place: impl Into<PathBuf>) -> Self {
        Self(Some(Arc::new(Folder { open: open.into(), place: place.into() })))
    }

    /// Whether it is the same as another one that the same `Roots` gave.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// A path as `/proc/PID/maps` shows it, from this root: the kernel shows it from the root of the mount namespace.
    pub fn path_inside(&self, path: &Path) -> PathBuf {
        let place = self.0.as_ref().and_then(|folder| path.strip_prefix(&folder.place).ok());
        place.map_or_else(|| path.to_owned(), |below| Path::new("/").join(below))
    }

    /// Whether it is this program's own.
    pub const fn is_own(&self) -> bool {
        self.0.is_none()
    }
}

/// What tells two roots apart: the mount namespace, device and inode.
pub type Identity = (PathBuf, u64, u64);

/// The roots that were met, each kept open once.
#[derive(Debug, Default)]
pub struct Roots {
    own: Option<Identity>,
    met: HashMap<Identity, Root>,
}

impl Roots {
    /// This program's own, and all that were met.
    pub fn all(&self) -> Vec<Root> {
        std::iter::once(Root::default()).chain(self.met.values().cloned()).collect()
    }

    /// A root as it was found, which is kept from now on; this program's own where none was.
    pub fn of(&mut self, found: Option<FoundRoot>) -> Root {
        if self.own.is_none() {
            self.own = identity("self").ok();
        }
        let Some(FoundRoot { identity, root }) = found else { return Root::default() };
        if self.own.as_ref() == Some(&identity) {
            return Root::default();
        }
        self.met.entry(identity).or_insert(root).clone()
    }
}

/// The root of a process, as it was found.
#[derive(Debug)]
pub struct FoundRoot {
    /// What tells it from others.
    pub identity: Identity,
    /// The folder.
    pub root: Root,
}

/// The root folder of a process that lives, what tells it from others, and where it lies in its mount namespace. May take as long as the folder's
/// file system likes.
pub fn root_facts(pid: Pid) -> Option<(File, Identity, PathBuf)> {
    let identity = of_living(pid, |pid| identity(&pid.to_string())).ok()?;
    let (folder, place) = folder_of(pid).ok()?;
    Some((folder, identity, place))
}

fn folder_of(pid: Pid) -> io::Result<(File, PathBuf)> {
    of_living(pid, folder_of_thread)
}

fn folder_of_thread(pid: Pid) -> io::Result<(File, PathBuf)> {
    let link = format!("/proc/{pid}/root");
    let mut options = OpenOptions::new();
    let folder = options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(&link)?;
    Ok((folder, std::fs::read_link(&link).unwrap_or_else(|_| "/".into())))
}

fn identity(of: &str) -> io::Result<Identity> {
    let namespace = std::fs::read_link(format!("/proc/{of}/ns/mnt"))?;
    let root = std::fs::metadata(format!("/proc/{of}/root"))?;
    Ok((namespace, root.dev(), root.ino()))
}

#[cfg(test)]
mod tests {
    use super::{FoundRoot, Root, Roots, root_facts};
    use energy_trace_model::ids::Pid;
    use std::fs::File;
    use std::io::Read as _;
    use std::path::Path;

    /// This process has this program's root, and so has a process that does not exist.
    #[test]
    fn own_root() {
        let mut roots = Roots::default();
        let mut of = |pid: u32| {
            let found = root_facts(Pid::new(pid));
            roots
                .of(found
                    .map(|(folder, identity, place)| FoundRoot { identity, root: Root::at(folder, place) }))
        };
        assert!(of(std::process::id()).is_own());
        assert!(of(u32::MAX >> 1).is_own());
    }

    /// Under another root paths and absolute links stay inside, a last link is refused on request, and what is no file is refused.
    #[test]
    fn files_of_another_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("inside"), "inside").unwrap();
        std::os::unix::fs::symlink("/inside", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
        let root = Root::at(File::open(folder.path()).unwrap(), "/jail");
        let read = |path: &str, follow| {
            let mut text = String::new();
            root.open(Path::new(path), follow).ok()?.read_to_string(&mut text).ok()?;
            Some(text)
        };
        assert_eq!(read("/inside", false).as_deref(), Some("inside"));
        assert_eq!(read("/link", true).as_deref(), Some("inside"));
        assert_eq!(read("/link", false), None);
        assert_eq!(read("/out", true), None);
        assert_eq!(read("/../../etc/passwd", true), None);
        assert_eq!(read("/", true), None);
        assert_eq!(root.path_inside(Path::new("/jail/lib/l.so")), Path::new("/lib/l.so"));
        assert_eq!(Root::default().path_inside(Path::new("/lib/l.so")), Path::new("/lib/l.so"));
    }
}
