//! Puts the library that is injected, and the socket that it talks to, into a new folder, and takes them away again.
//!
//! The folder may be below the root of a program that means harm, which moves things about while we work. So everything is done by
//! descriptors: nothing is opened, made, changed or removed by a path with somebody else's folder in it, and no link is followed. Leaves out
//! where the library comes from (`tracee/injection.rs`) and below which roots it is put (`probe/gpu/containers.rs`).

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket beside the library.
pub const SOCKET_FILE: &str = "socket";
/// Group and everybody may write.
pub const OTHERS_WRITE: u32 = 0o022;

/// A new folder that nobody else may write to, below one that is open.
///
/// # Errors
/// When there is such a name already, or what was made is something else by the time it is opened.
pub fn make_folder(parent: &File, name: &OsStr) -> io::Result<File> {
    mkdirat(parent, name, Mode::S_IRWXU)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = File::from(openat(parent, name, flags, Mode::empty())?);
    let facts = folder.metadata()?;
    let is_new = facts.mode() & 0o777 == 0o700 && facts.uid() == nix::unistd::geteuid().as_raw();
    if is_new && fs::read_dir(by_descriptor(&folder))?.next().is_none() {
        return Ok(folder);
    }
    Err(io::Error::other("somebody has put another folder in the place of the new one"))
}

/// Puts a copy of the library, under this name, and a socket into a folder that `make_folder` made, and opens it to whoever a command runs
/// as: what others say is not believed (`probe/gpu`). Returns the copy, open, and the socket.
///
/// # Errors
/// When the system does not let us, or somebody has put something else in the place of what was made.
pub fn install_into(folder: &File, library: &Path, name: &OsStr) -> io::Result<(File, UnixListener)> {
    let copy = put(folder, name, &mut File::open(library)?, 0o755)?;
    let listener = listen_in(folder)?;
    open_to_all(folder)?;
    Ok((copy, listener))
}

/// A new file, open for reading: one that is open for writing cannot be run.
///
/// # Errors
/// When the system does not let us, or there is such a name.
pub fn put(folder: &File, name: &OsStr, from: &mut dyn io::Read, mode: u32) -> io::Result<File> {
    let new = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut copy = File::from(openat(folder, name, new, Mode::S_IRUSR | Mode::S_IWUSR)?);
    io::copy(from, &mut copy)?;
    fchmod(&copy, Mode::from_bits_truncate(mode))?;
    // By its descriptor: whatever its name leads to by now.
    File::open(by_descriptor(&copy))
}

/// A socket that everybody may talk to.
///
/// # Errors
/// When the system does not let us, or somebody has put something else in its place.
pub fn listen_in(folder: &File) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(by_descriptor(folder).join(SOCKET_FILE))?;
    fs::set_permissions(by_descriptor(&socket_in(folder, SOCKET_FILE)?), Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// This user alone may talk to the socket of this name that was made in a folder.
///
/// # Errors
/// When the system does not let us, or somebody has put something else in its place.
pub fn open_socket_to(folder: &File, name: &str, user: Uid) -> io::Result<()> {
    let socket = socket_in(folder, name)?;
    std::os::unix::fs::chown(by_descriptor(&socket), Some(user.as_raw()), None)?;
    fs::set_permissions(by_descriptor(&socket), Permissions::from_mode(0o600))
}

fn socket_in(folder: &File, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let socket = openat(folder, name, flags, Mode::empty())?;
    if SFlag::from_bits_truncate(fstat(&socket)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
        return Err(io::Error::other("somebody has put something else in the place of the socket"));
    }
    Ok(socket)
}

/// Everybody may look into a folder.
///
/// # Errors
/// The system's.
pub fn open_to_all(folder: &File) -> io::Result<()> {
    Ok(fchmod(folder, Mode::from_bits_truncate(0o755))?)
}

/// Takes away what was made: the two files by their folder's descriptor, and the folder if it is still the one of that name. Where others may
/// make one of that name, the empty folder stays: the name may stand in the environment of programs that run on.
///
/// # Errors
/// The first error of the system; the rest is tried all the same.
pub fn remove(parent: &File, folder: &File, folder_name: &OsStr, name: &OsStr) -> io::Result<()> {
    let files = [OsStr::new(SOCKET_FILE), name];
    let removed = files.map(|file| unlinkat(folder, file, UnlinkatFlags::NoRemoveDir));
    let there = fstatat(parent, folder_name, AtFlags::AT_SYMLINK_NOFOLLOW);
    let own = fstat(folder)?;
    let is_own = there.is_ok_and(|there| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino));
    let gone = match (is_own, fstat(parent)?.st_mode & OTHERS_WRITE) {
        (true, 0) => unlinkat(parent, folder_name, UnlinkatFlags::RemoveDir),
        (true, _) => Ok(()),
        (false, _) => Err(Errno::ESTALE),
    };
    removed.into_iter().chain([gone]).collect::<Result<(), _>>().map_err(Into::into)
}

/// Device and inode of a file that two names lead to from an open folder, without a link on the way; `None` where there is none.
pub fn identity_below(parent: &File, folder: &OsStr, name: &OsStr) -> Option<(u64, u64)> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = openat(parent, folder, flags, Mode::empty()).ok()?;
    let facts = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    Some((facts.st_dev, facts.st_ino))
}

/// The path that leads to an open file, in this process.
pub fn by_descriptor(file: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::{File, OsStr, Uid, identity_below, install_into, make_folder, open_socket_to, remove};
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    const NAME: &str = "library.so";

    fn library(folder: &std::path::Path) -> std::path::PathBuf {
        let path = folder.join("original");
        fs::write(&path, "code").unwrap();
        path
    }

    /// A socket that one user may talk to is that user's, and what is no socket is nobody's.
    #[test]
    fn a_socket_of_one_user() {
        let place = tempfile::tempdir().unwrap();
        let folder = File::open(place.path()).unwrap();
        let _socket = std::os::unix::net::UnixDatagram::bind(place.path().join("units")).unwrap();
        let user = Uid::from_raw(if Uid::effective().is_root() { 12_345 } else { Uid::effective().as_raw() });
        open_socket_to(&folder, "units", user).unwrap();
        let found = fs::metadata(place.path().join("units")).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (user.as_raw(), 0o600));
        library(place.path());
        assert!(open_socket_to(&folder, "original", user).is_err());
    }

    /// The folder is swapped for a link after it was made: what follows still goes to the folder, and nothing to where the link leads.
    #[test]
    fn a_folder_that_becomes_a_link() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let parent = File::open(place.path()).unwrap();
        let folder = make_folder(&parent, OsStr::new("own")).unwrap();
        fs::rename(place.path().join("own"), place.path().join("moved")).unwrap();
        symlink(elsewhere.path(), place.path().join("own")).unwrap();
        let mode = fs::metadata(elsewhere.path()).unwrap().mode();
        let (_copy, _socket) = install_into(&folder, &library(place.path()), OsStr::new(NAME)).unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert_eq!(fs::metadata(elsewhere.path()).unwrap().mode(), mode);
        assert_eq!(fs::read_to_string(place.path().join("moved").join(NAME)).unwrap(), "code");
        assert_eq!(identity_below(&parent, OsStr::new("own"), OsStr::new(NAME)), None);
        fs::write(elsewhere.path().join(NAME), "theirs").unwrap();
        assert!(remove(&parent, &folder, OsStr::new("own"), OsStr::new(NAME)).is_err());
        assert_eq!(fs::read_to_string(elsewhere.path().join(NAME)).unwrap(), "theirs");
        assert_eq!(fs::read_dir(place.path().join("moved")).unwrap().count(), 0);
    }

    /// A link that waits where the folder, the library or the socket is to come is refused, and what it leads to stays as it is.
    #[test]
    fn links_that_wait() {
        let place = tempfile::tempdir().unwrap();
        let parent = File::open(place.path()).unwrap();
        let precious = place.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(place.path(), place.path().join("link")).unwrap();
        assert!(make_folder(&parent, OsStr::new("link")).is_err());
        for name in [NAME, "socket"] {
            let folder = make_folder(&parent, OsStr::new("own")).unwrap();
            symlink(&precious, place.path().join("own").join(name)).unwrap();
            assert!(install_into(&folder, &library(place.path()), OsStr::new(NAME)).is_err(), "{name}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
            assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o600);
            fs::remove_dir_all(place.path().join("own")).unwrap();
        }
    }

    /// What was made goes again, folder and all.
    #[test]
    fn it_goes_again() {
        let place = tempfile::tempdir().unwrap();
        let parent = File::open(place.path()).unwrap();
        let own = OsStr::new("own");
        let folder = make_folder(&parent, own).unwrap();
        let (copy, _socket) = install_into(&folder, &library(place.path()), OsStr::new(NAME)).unwrap();
        let facts = copy.metadata().unwrap();
        assert_eq!(identity_below(&parent, own, OsStr::new(NAME)), Some((facts.dev(), facts.ino())));
        remove(&parent, &folder, own, OsStr::new(NAME)).unwrap();
        assert!(!place.path().join("own").exists());
    }

    /// Where everybody may make a folder of that name, an empty one stays in its place.
    #[test]
    fn the_name_stays_taken() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let (parent, own) = (File::open(place.path()).unwrap(), OsStr::new("own"));
        let folder = make_folder(&parent, own).unwrap();
        let _made = install_into(&folder, &library(place.path()), OsStr::new(NAME)).unwrap();
        remove(&parent, &folder, own, OsStr::new(NAME)).unwrap();
        assert_eq!(fs::read_dir(place.path().join("own")).unwrap().count(), 0);
    }
}
