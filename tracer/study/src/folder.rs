//! The folder of a study: its plan, a recording, two outputs and the numbers of each run, and the tables.
//!
//! A run is done when its numbers are there, which come in one step; what else there is of it is made anew. Files are the invoking user's.
//! Leaves out when runs are made.

use super::plan::{Plan, SCHEMA};
use crate::data::Run;
use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The rights of others to write.
const OTHERS_WRITE: u32 = 0o022;
/// Longest file of a study that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Why a study's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system's error.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} is no file of a study: {why}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file, or a link.
    #[error("{} is not a folder, and a study needs one; name another with -o", .0.display())]
    NotAFolder(PathBuf),
    /// The folder of somebody else.
    #[error("{} belongs to another user; name another folder with -o", .0.display())]
    NotOurs(PathBuf),
    /// Others may change what it says, and so what is run.
    #[error("{} can be changed by other users, and a study is run as it says; take that right away (chmod go-w), or name another folder with -o", .0.display())]
    OpenToOthers(PathBuf),
    /// Another study is in it.
    #[error("{} holds another study; name another folder with -o, or go on with it by `energy-trace compare -o {}`", .0.display(), .0.display())]
    OtherStudy(PathBuf),
    /// No study is in it.
    #[error("{} holds no study to go on with; name programs: compare -- ./a -- ./b", .0.display())]
    NoStudy(PathBuf),
    /// It is in use.
    #[error("another energy-trace is at work on {}", .0.display())]
    InUse(PathBuf),
}

/// A folder, locked for as long as it is held.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

fn at(path: &Path) -> impl Fn(io::Error) -> FolderError + use<> {
    let path = path.to_owned();
    move |source| FolderError::Io { path: path.clone(), source }
}

impl Folder {
    /// Opens the folder, or makes it.
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let runs = path.join("runs");
        for folder in [path, &runs] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(folder)(error)),
                _ => (),
            }
            let found = fs::symlink_metadata(folder).map_err(at(folder))?;
            if !found.is_dir() {
                return Err(FolderError::NotAFolder(folder.to_owned()));
            }
            if found.uid() != geteuid().as_raw() {
                return Err(FolderError::NotOurs(folder.to_owned()));
            }
            if found.mode() & OTHERS_WRITE != 0 {
                return Err(FolderError::OpenToOthers(folder.to_owned()));
            }
        }
        let lock = path.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&lock)
            .map_err(at(&lock))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: file }),
            Err(fs::TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
            Err(fs::TryLockError::Error(error)) => Err(at(&lock)(error)),
        }
    }

    /// The plan: the wanted one, or the same as it was begun, or what is there where none is wanted.
    pub(super) fn plan(&self, wanted: Option<Plan>) -> Result<Plan, FolderError> {
        let file = self.path.join("plan.json");
        match (read::<Plan>(&file)?, wanted) {
            (Some(there), _) if there.schema != SCHEMA => {
                Err(FolderError::Foreign { path: file, why: format!("its schema is not {SCHEMA}") })
            }
            (Some(there), None) => Ok(there),
            (Some(there), Some(wanted)) if wanted.is_same(&there) => Ok(there.with_labels_of(&wanted)),
            (Some(_), _) => Err(FolderError::OtherStudy(self.path.clone())),
            (None, None) => Err(FolderError::NoStudy(self.path.clone())),
            (None, Some(wanted)) => self.write_json("plan.json", &wanted).map(|()| wanted),
        }
    }

    /// The numbers of a run that is done.
    pub(super) fn run(&self, number: usize) -> Result<Option<Run>, FolderError> {
        read(&self.of_run(number, "json"))
    }

    /// A file of a run.
    pub(super) fn of_run(&self, number: usize, ending: &str) -> PathBuf {
        self.path.join("runs").join(format!("{number:04}.{ending}"))
    }

    /// An empty file for what a program writes.
    pub(super) fn output(&self, number: usize, ending: &str) -> Result<File, FolderError> {
        let path = self.of_run(number, ending);
        make(&path).map_err(at(&path))
    }

    /// Marks a run as done.
    pub(super) fn finish(&self, run: &Run) -> Result<(), FolderError> {
        self.write_json(&format!("runs/{:04}.json", run.number), run)
    }

    /// Writes a file in one step.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let (path, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let written = make(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_data()
        });
        written.and_then(|()| fs::rename(&new, &path)).map_err(at(&path))
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let bytes = serde_json::to_vec_pretty(value);
        let bytes =
            bytes.map_err(|error| FolderError::Foreign { path: name.into(), why: error.to_string() })?;
        self.write(name, &bytes)
    }
}

/// Makes a file that was not there, in the place of any that was.
fn make(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FolderError> {
    let file =
        match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(at(path))?,
        };
    let found = file.metadata().map_err(at(path))?;
    if !found.is_file() {
        return Err(FolderError::Foreign { path: path.to_owned(), why: "it is no regular file".to_owned() });
    }
    if found.uid() != geteuid().as_raw() {
        return Err(FolderError::NotOurs(path.to_owned()));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(FolderError::OpenToOthers(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(at(path))?;
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|error| FolderError::Foreign { path: path.to_owned(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::{Folder, FolderError, Run};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// What is done is there again, what is foreign is refused by name, and two cannot work on one study.
    #[test]
    fn a_study_goes_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("study");
        let folder = Folder::open(&path).unwrap();
        assert!(matches!(Folder::open(&path), Err(FolderError::InUse(_))));
        assert!(matches!(folder.plan(None), Err(FolderError::NoStudy(_))));
        assert_eq!(folder.run(3).unwrap(), None);
        let run = Run { number: 3, round: 1, ..Run::default() };
        folder.finish(&run).unwrap();
        drop(folder);
        let folder = Folder::open(&path).unwrap();
        assert_eq!(folder.run(3).unwrap(), Some(run));
        fs::write(path.join("plan.json"), "{}").unwrap();
        assert!(matches!(folder.plan(None), Err(FolderError::Foreign { .. })));
        std::os::unix::fs::symlink("/dev/zero", path.join("runs/0004.json")).unwrap();
        assert!(folder.run(4).is_err());
        mkfifo(&path.join("runs/0005.json"), Mode::S_IRWXU).unwrap();
        assert!(matches!(folder.run(5), Err(FolderError::Foreign { .. })));
    }

    /// What others may write decides nothing: neither a plan nor a folder.
    #[test]
    fn others_decide_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("study");
        let folder = Folder::open(&path).unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(path.join("plan.json"), "{}").unwrap();
        open(&path.join("plan.json"), 0o666);
        assert!(matches!(folder.plan(None), Err(FolderError::OpenToOthers(_))));
        drop(folder);
        for (folder, mode) in [("study", 0o777), ("study/runs", 0o720)] {
            open(&place.path().join(folder), mode);
            assert!(matches!(Folder::open(&path), Err(FolderError::OpenToOthers(_))), "{folder}");
            open(&place.path().join(folder), 0o755);
        }
        assert!(Folder::open(&path).is_ok());
    }
}
