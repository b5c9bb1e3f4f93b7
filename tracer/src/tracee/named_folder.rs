//! A folder whose name stands in a command's environment: for whom it holds code, nobody else may ever make one of that name.
//!
//! What the command starts may run on when the recording has ended, and looks for code below that name then. So the folder is made where only
//! root, or the user who runs this, can make anything; where there is no such place, among other users' files, and there it stays when it has
//! been emptied. Leaves out what is put into it.

use energy_trace_foreign::files::install::{OTHERS_WRITE, by_descriptor};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where root alone makes anything.
const OF_ROOT: [&str; 2] = ["/run", "/var/lib"];
/// Where everybody may, and nobody can move what is another's.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Files that are read.
    Text,
    /// Code that is mapped.
    MachineCode,
}

/// A new folder. Dropped, it goes, or what it holds.
#[derive(Debug)]
pub(super) struct NamedFolder {
    folder: Option<TempDir>,
    open: File,
    path: PathBuf,
    /// Others could make one of that name.
    stays: bool,
}

impl NamedFolder {
    /// Makes it in the first place that will do.
    ///
    /// # Errors
    /// When there is none: the last error of the system, and where it was tried.
    pub(super) fn make(holds: Holds) -> io::Result<Self> {
        let places = places();
        let mut failure = io::Error::from(ErrorKind::PermissionDenied);
        for (place, stays) in places.iter().filter(|(place, _)| holds == Holds::Text || may_run_code(place)) {
            match Self::make_in(place, *stays) {
                Ok(made) => return Ok(made),
                Err(error) => failure = error,
            }
        }
        let tried: Vec<String> = places.iter().map(|(place, _)| place.display().to_string()).collect();
        Err(io::Error::new(failure.kind(), format!("in any of {}: {failure}", tried.join(", "))))
    }

    fn make_in(place: &Path, stays: bool) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let folder =
            builder.prefix("energy-trace-").permissions(Permissions::from_mode(0o700)).tempdir_in(place)?;
        let path = folder.path().to_owned();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let open = OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
        Ok(Self { folder: Some(folder), open, path, stays })
    }

    /// The folder itself: all that is made in it is made by this.
    pub(super) const fn open(&self) -> &File {
        &self.open
    }

    /// Its name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it with all that it holds.
    pub(super) fn leave(mut self) {
        let _path = self.folder.take().map(TempDir::keep);
    }

    fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(by_descriptor(&self.open))? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}

impl Drop for NamedFolder {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take().filter(|_| self.stays) else { return };
        let _path = folder.keep();
        if let Err(error) = self.empty() {
            log::debug!("{} is not empty: {error}", self.path.display());
        }
    }
}

/// Where a folder may be made, and whether its name has to stay taken there.
fn places() -> Vec<(PathBuf, bool)> {
    let own = if geteuid().is_root() { OF_ROOT.map(PathBuf::from).to_vec() } else { of_user() };
    let own = own.into_iter().filter(|place| is_ours_alone(place)).map(|place| (place, false));
    let shared = SHARED.iter().map(PathBuf::from).filter(|place| keeps_what_is_ours(place));
    own.chain(shared.map(|place| (place, true))).collect()
}

/// Where the user who runs this alone makes anything.
fn of_user() -> Vec<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let cache = named("HOME").map(|home| home.join(".cache"));
    named("XDG_RUNTIME_DIR").into_iter().chain(cache).filter(|place| place.is_absolute()).collect()
}

/// Whether nobody but root and this user can make, move or remove anything there, nor on the way there.
fn is_ours_alone(place: &Path) -> bool {
    place.ancestors().all(|part| folder_of_ours(part).is_some_and(|facts| facts.mode() & OTHERS_WRITE == 0))
}

/// Whether others may make things there and cannot move what is ours.
fn keeps_what_is_ours(place: &Path) -> bool {
    let is_sticky = folder_of_ours(place).is_some_and(|facts| facts.mode() & libc::S_ISVTX != 0);
    is_sticky && place.parent().is_some_and(is_ours_alone)
}

/// A folder, and no link to one, of root or of this user.
fn folder_of_ours(path: &Path) -> Option<Metadata> {
    let is_ours = |facts: &Metadata| facts.uid() == 0 || facts.uid() == geteuid().as_raw();
    fs::symlink_metadata(path).ok().filter(|facts| facts.is_dir() && is_ours(facts))
}

fn may_run_code(place: &Path) -> bool {
    statvfs(place).is_ok_and(|facts| !facts.flags().contains(FsFlags::ST_NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::{Holds, NamedFolder, is_ours_alone, keeps_what_is_ours};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::path::Path;

    /// A place below one where everybody may write is nobody's alone, nor is a link; a shared one has to be sticky.
    #[test]
    fn whose_places_are() {
        assert!(["/usr", "/"].iter().all(|place| is_ours_alone(Path::new(place))));
        let shared = tempfile::tempdir().unwrap();
        assert!(!is_ours_alone(shared.path()), "below /tmp");
        assert!(keeps_what_is_ours(Path::new("/tmp")) && !keeps_what_is_ours(Path::new("/usr")));
        fs::set_permissions(shared.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(!keeps_what_is_ours(shared.path()));
        symlink("/usr", shared.path().join("link")).unwrap();
        assert!(!is_ours_alone(&shared.path().join("link")) && !is_ours_alone(Path::new("/nonexistent")));
    }

    /// A folder of somebody else is no place, whoever its folder belongs to.
    #[test]
    fn anothers_folder() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let place = tempfile::Builder::new().tempdir_in("/var/lib").unwrap();
        assert!(is_ours_alone(place.path()));
        chown(place.path(), Some(12_346), None).unwrap();
        assert!(!is_ours_alone(place.path()));
    }

    /// What is made goes; where others could make one of that name, an empty folder stays, and `leave` leaves all.
    #[test]
    fn it_goes_or_its_name_stays_taken() {
        let place = tempfile::tempdir().unwrap();
        let make = |stays| {
            let made = NamedFolder::make_in(place.path(), stays).unwrap();
            fs::create_dir(made.path().join("__pycache__")).unwrap();
            fs::write(made.path().join("__pycache__/code"), "code").unwrap();
            (made.path().to_owned(), made)
        };
        let (path, made) = make(false);
        drop(made);
        assert!(!path.exists());
        let (path, made) = make(true);
        drop(made);
        assert_eq!(fs::read_dir(path).unwrap().count(), 0);
        let (path, made) = make(true);
        made.leave();
        assert!(path.join("__pycache__/code").exists());
    }

    /// Root's is made where root alone makes anything.
    #[test]
    fn roots_own_place() {
        if nix::unistd::geteuid().is_root() && is_ours_alone(Path::new("/run")) {
            let made = NamedFolder::make(Holds::Text).unwrap();
            assert!(made.path().starts_with("/run") && !made.stays);
        }
    }
}
