//! The place of an output: its folder, opened once, and its name in there. No path is followed a second time.
//!
//! Leaves out what is put there (`outputs.rs`).

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Names that are tried for a copy: `NAME.1` and on.
const MOST_COPIES: u32 = 1_000;

/// A name in a folder that stays open.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    folder: OwnedFd,
    name: OsString,
}

/// What a file is, whatever it is called: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(libc::dev_t, libc::ino_t);

impl FileId {
    /// Of an open file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&fstat(file)?))
    }
}

impl From<&FileStat> for FileId {
    fn from(found: &FileStat) -> Self {
        Self(found.st_dev, found.st_ino)
    }
}

/// Where a file is that was put into a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Where it was put, and its path leads to it.
    InPlace,
    /// In its folder, which is here now.
    Moved(PathBuf),
    /// Something else has its name, or nothing.
    Gone,
}

impl Place {
    /// Opens the folder. `None`: the path names no file in a folder (`.`, `/`, `x/`).
    ///
    /// # Errors
    /// When there is no such folder, or it may not be entered.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
        let Some(name) = path.file_name().filter(|_| !ends_in_slash) else { return Ok(None) };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = openat(AT_FDCWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        Ok(Some(Self { path: path.to_owned(), folder, name: name.to_owned() }))
    }

    /// The path as typed.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, with this behind it.
    pub(super) fn name_with(&self, ending: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(ending);
        name
    }

    /// What has the name; links are not followed.
    ///
    /// # Errors
    /// When the folder may not be searched.
    pub(super) fn look(&self) -> io::Result<Option<FileStat>> {
        match fstatat(&self.folder, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a sticky folder (`/tmp`) keeps this user from replacing what has the name.
    pub(super) fn is_kept_by_another(&self, found: &FileStat) -> io::Result<bool> {
        let folder = fstat(self.folder.as_fd())?;
        let sticky = folder.st_mode & libc::S_ISVTX != 0;
        let us = nix::unistd::geteuid().as_raw();
        Ok(sticky && us != 0 && found.st_uid != us && folder.st_uid != us)
    }

    /// Makes a new file, for reading and writing; what has the name already, a link above all, is an error.
    pub(super) fn create(&self, name: &OsStr, mode: Mode) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.folder, name, flags, mode)?))
    }

    /// As `create`, with the place's own name.
    pub(super) fn create_own(&self, mode: Mode) -> io::Result<File> {
        self.create(&self.name, mode)
    }

    /// Makes a file without a name in the folder's file system: it is gone when nobody has it open.
    pub(super) fn create_unnamed(&self, mode: Mode) -> io::Result<File> {
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.folder, ".", flags, mode)?))
    }

    /// Gives a file without a name one.
    pub(super) fn give_name(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(AT_FDCWD, unnamed.as_str(), &self.folder, name, AtFlags::AT_SYMLINK_FOLLOW)?)
    }

    /// Renames within the folder, over whatever has the new name but a folder; a link there is replaced, not followed.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Puts what has this name into the place.
    pub(super) fn take_in(&self, from: &OsStr) -> io::Result<()> {
        self.rename(from, &self.name)
    }

    /// Puts what is in the place aside under another name.
    pub(super) fn put_aside(&self, to: &OsStr) -> io::Result<()> {
        self.rename(&self.name, to)
    }

    /// Removes a name from the folder.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes what is in the place.
    pub(super) fn remove_own(&self) -> io::Result<()> {
        self.remove(&self.name)
    }

    /// Where the file is by now that was put here.
    pub(super) fn fate_of(&self, file: FileId) -> Fate {
        let is = |found: Result<FileStat, Errno>| found.is_ok_and(|found| FileId::from(&found) == file);
        let nofollow = AtFlags::AT_SYMLINK_NOFOLLOW;
        if !is(fstatat(&self.folder, self.name.as_os_str(), nofollow)) {
            return Fate::Gone;
        }
        if is(fstatat(AT_FDCWD, &self.path, nofollow)) {
            Fate::InPlace
        } else {
            Fate::Moved(self.now(&self.name))
        }
    }

    /// Writes a copy beside the place, as `NAME.N`, or where the folder takes none, in a new folder for temporary files.
    ///
    /// # Errors
    /// When it can be written nowhere.
    pub(super) fn save_copy(&self, from: &mut File) -> io::Result<PathBuf> {
        let mode = Mode::from_bits_truncate(0o600);
        let beside = (1..=MOST_COPIES).find_map(|number| {
            let name = self.name_with(&format!(".{number}"));
            match self.create(&name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|file| (file, name))),
            }
        });
        if let Some(Ok((mut file, name))) = beside {
            match copy(from, &mut file) {
                Ok(()) => return Ok(self.now(&name)),
                // A half of it helps nobody.
                Err(_) => drop(self.remove(&name)),
            }
        }
        self.save_elsewhere(from)
    }

    fn save_elsewhere(&self, from: &mut File) -> io::Result<PathBuf> {
        let private = std::fs::Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix("energy-trace-").permissions(private);
        let folder = folder.tempdir().or_else(|_| folder.tempdir_in("/tmp"))?;
        let path = folder.path().join(&self.name);
        let mut file = File::create_new(&path)?;
        copy(from, &mut file)?;
        // Only now it is to stay.
        let _kept = folder.keep();
        Ok(path)
    }

    /// The path of a name in the folder, wherever that is now.
    fn now(&self, name: &OsStr) -> PathBuf {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let typed = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let same = |a: FileStat, b: FileStat| FileId::from(&a) == FileId::from(&b);
        let ours = fstat(self.folder.as_fd());
        match (ours, fstatat(AT_FDCWD, typed, AtFlags::empty())) {
            (Ok(ours), Ok(found)) if same(ours, found) => parent.join(name),
            _ => std::fs::read_link(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
                .map_or_else(|_| name.into(), |folder| folder.join(name)),
        }
    }
}

fn copy(from: &mut File, to: &mut File) -> io::Result<()> {
    from.rewind()?;
    // Read and written, because a limit on the size of files ends copy_file_range without a reason.
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => io::Write::write_all(to, buffer.get(..read).unwrap_or_default())?,
        }
    }
}
