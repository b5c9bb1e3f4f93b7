//! The files of a recording, as the user's own: made before the run, put into their places after it, saved where a place is not theirs
//! any more, taken away when nothing ran.
//!
//! Leaves out their contents (`profile::file`, `results.rs`).

use super::place::{Fate, FileId, Place};
use crate::plan::RecordPlan;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, Mode};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Why an output cannot be made, or is not where it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    /// The system refuses.
    #[error("cannot write {path}{whose}: {source}; name another place with {option}")]
    Refused { path: PathBuf, whose: String, option: &'static str, source: io::Error },
    /// Something that is not a file has the name.
    #[error("cannot write {path}: it is {what}, not a file; name another with {option}")]
    Occupied { path: PathBuf, what: &'static str, option: &'static str },
    /// In a sticky folder, a file of somebody else has the name.
    #[error("cannot replace {path}: it belongs to another user; name another file with {option}")]
    Anothers { path: PathBuf, option: &'static str },
    /// The older recording cannot be put aside.
    #[error(
        "cannot keep the older {path} as {old:?}{whose}: {source}; move it away or name another file with -o FILE"
    )]
    KeepOld { path: PathBuf, old: OsString, whose: String, source: io::Error },
    /// Recording and flame graph are one file.
    #[error("{path} is the recording: name another file with --svg FILE")]
    Same { path: PathBuf },
    /// It could be saved nowhere.
    #[error("{path} was removed or replaced, and a copy cannot be written anywhere: {source}")]
    Lost { path: PathBuf, source: io::Error },
}

const RECORDING: &str = "-o FILE";
const SVG: &str = "--svg FILE";
/// Readable by their owner only: kernel addresses in the recording would undo address randomisation for others (`perf record` does the same),
/// and what is drawn of it names files and programs.
const MODE: Mode = Mode::from_bits_truncate(0o600);

/// Both files.
#[derive(Debug)]
pub(super) struct Outputs {
    recording: Recording,
    svg: Option<Svg>,
}

impl Outputs {
    /// Makes the recording's file, puts an older one aside, and makes room for the flame graph. What fails leaves nothing behind.
    pub(super) fn prepare(plan: &RecordPlan) -> Result<Self, OutputError> {
        let maker = Maker { whose: whose(plan) };
        let recording = maker.recording(&plan.recording)?;
        match plan.svg.as_deref().map(|path| maker.svg(path, &recording)).transpose() {
            Ok(svg) => Ok(Self { recording, svg: svg.flatten() }),
            Err(error) => {
                recording.discard();
                Err(error)
            }
        }
    }

    /// The recording, open for writing and reading.
    pub(super) const fn recording(&self) -> &File {
        &self.recording.file
    }

    /// Whether a flame graph is wanted.
    pub(super) const fn wants_svg(&self) -> bool {
        self.svg.is_some()
    }

    /// Writes the flame graph into its place and says where it is.
    pub(super) fn put_svg(&mut self, svg: &[u8]) -> Result<Option<PathBuf>, OutputError> {
        self.svg.as_mut().map(|place| place.put(svg)).transpose()
    }

    /// Where the recording is, once it is written; a copy is made where its place is not its own any more. `None`: none is kept.
    pub(super) fn keep_recording(&mut self) -> Result<Option<PathBuf>, OutputError> {
        self.recording.keep()
    }

    /// Nothing was recorded: takes the files away and puts the older recording back.
    pub(super) fn discard(self) {
        self.recording.discard();
    }
}

/// As whom files are made, where that is not obvious.
fn whose(plan: &RecordPlan) -> String {
    let user = plan.owner.as_ref();
    user.map_or_else(String::new, |user| format!(" as user {}, who typed sudo", user.uid))
}

struct Maker {
    whose: String,
}

impl Maker {
    fn recording(&self, path: &Path) -> Result<Recording, OutputError> {
        let refused = |source| self.refused(path, RECORDING, source);
        let (place, found) = self.look(path, RECORDING)?;
        let old = match found.map(|found| kind(&found)) {
            None => None,
            Some(Kind::File) => Some(self.keep_old(&place)?),
            Some(Kind::Null) => {
                let file = tempfile::tempfile().map_err(refused)?;
                return Ok(Recording { file, kept: None });
            }
            Some(Kind::Other(what)) => return Err(occupied(path, what, RECORDING)),
        };
        let put_back = |error| {
            put_back(&place, old.as_ref());
            error
        };
        let file = place.create_own(MODE).map_err(|source| put_back(refused(source)))?;
        let id = FileId::of(&file).map_err(refused)?;
        Ok(Recording { file, kept: Some(Kept { place, old, id }) })
    }

    fn keep_old(&self, place: &Place) -> Result<OsString, OutputError> {
        let old = place.name_with(".old");
        place.put_aside(&old).map_err(|source| OutputError::KeepOld {
            path: place.path().to_owned(),
            old: old.clone(),
            whose: self.whose.clone(),
            source,
        })?;
        Ok(old)
    }

    /// `None`: it goes nowhere.
    fn svg(&self, path: &Path, recording: &Recording) -> Result<Option<Svg>, OutputError> {
        let refused = |source| self.refused(path, SVG, source);
        let (place, found) = self.look(path, SVG)?;
        if let Some(found) = found {
            match kind(&found) {
                Kind::Null => return Ok(None),
                Kind::Other(what) => return Err(occupied(path, what, SVG)),
                Kind::File if recording.is(&found) => {
                    return Err(OutputError::Same { path: path.to_owned() });
                }
                Kind::File if place.is_kept_by_another(&found).map_err(refused)? => {
                    return Err(OutputError::Anothers { path: path.to_owned(), option: SVG });
                }
                Kind::File => (),
            }
        }
        let made = Svg::make(place, self.whose.clone()).map_err(refused)?;
        Ok(Some(made))
    }

    fn look(&self, path: &Path, option: &'static str) -> Result<(Place, Option<FileStat>), OutputError> {
        let refused = |source| self.refused(path, option, source);
        let place = Place::open(path).map_err(refused)?.ok_or_else(|| occupied(path, "a folder", option))?;
        let found = place.look().map_err(refused)?;
        Ok((place, found))
    }

    fn refused(&self, path: &Path, option: &'static str, source: io::Error) -> OutputError {
        OutputError::Refused { path: path.to_owned(), whose: self.whose.clone(), option, source }
    }
}

fn occupied(path: &Path, what: &'static str, option: &'static str) -> OutputError {
    OutputError::Occupied { path: path.to_owned(), what, option }
}

fn put_back(place: &Place, old: Option<&OsString>) {
    if let Some(Err(error)) = old.map(|old| place.take_in(old)) {
        log::warn!("the older {} stays as its `.old`: {error}", place.path().display());
    }
}

/// What has a name.
enum Kind {
    File,
    /// `/dev/null`.
    Null,
    Other(&'static str),
}

fn kind(found: &FileStat) -> Kind {
    match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        // Documentation/admin-guide/devices.txt: character device 1:3.
        libc::S_IFCHR if found.st_rdev == libc::makedev(1, 3) => Kind::Null,
        libc::S_IFLNK => Kind::Other("a link, which is not followed"),
        libc::S_IFIFO => Kind::Other("a pipe"),
        libc::S_IFDIR => Kind::Other("a folder"),
        libc::S_IFSOCK => Kind::Other("a socket"),
        _ => Kind::Other("a device"),
    }
}

/// The recording's file.
#[derive(Debug)]
struct Recording {
    file: File,
    /// `None`: it has no name and goes with its last descriptor.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    place: Place,
    /// The name of the older one.
    old: Option<OsString>,
    id: FileId,
}

impl Recording {
    fn is(&self, found: &FileStat) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.id == FileId::from(found))
    }

    fn keep(&mut self) -> Result<Option<PathBuf>, OutputError> {
        let Some(Kept { place, id, .. }) = &self.kept else { return Ok(None) };
        let path = place.path().to_owned();
        match place.fate_of(*id) {
            Fate::InPlace => Ok(Some(path)),
            Fate::Moved(now) => {
                warn(&path, "is in another directory now", "recording", &now);
                Ok(Some(now))
            }
            Fate::Gone => {
                let saved = place.save_copy(&mut self.file);
                let saved = saved.map_err(|source| OutputError::Lost { path: path.clone(), source })?;
                warn(&path, "was moved, replaced or removed during the run", "recording", &saved);
                Ok(Some(saved))
            }
        }
    }

    fn discard(self) {
        let Some(Kept { place, old, id }) = self.kept else { return };
        // What somebody else has put there is not ours to remove.
        let ours = place.look().ok().flatten().is_some_and(|found| FileId::from(&found) == id);
        if ours && let Err(error) = place.remove_own() {
            log::warn!("cannot remove {}, into which nothing was recorded: {error}", place.path().display());
        }
        put_back(&place, old.as_ref());
    }
}

/// The flame graph's place, and a file in its folder that nobody sees before it is put there.
#[derive(Debug)]
struct Svg {
    place: Place,
    file: File,
    /// The file's name for the moment before it is put there, or for the whole run where the file system has no files without one.
    name: OsString,
    /// Whether it has that name.
    named: bool,
    whose: String,
}

impl Svg {
    fn make(place: Place, whose: String) -> io::Result<Self> {
        let name = hidden(&place);
        let made = match place.create_unnamed(MODE) {
            Err(error) if has_no_unnamed(&error) => place.create(&name, MODE).map(|file| (file, true)),
            made => made.map(|file| (file, false)),
        };
        let (file, named) = made?;
        Ok(Self { place, file, name, named, whose })
    }

    fn put(&mut self, svg: &[u8]) -> Result<PathBuf, OutputError> {
        let path = self.place.path().to_owned();
        let id = self.file.write_all(svg).and_then(|()| FileId::of(&self.file)).map_err(|source| {
            OutputError::Refused { path: path.clone(), whose: self.whose.clone(), option: SVG, source }
        })?;
        let put = self.move_in();
        match (put, self.place.fate_of(id)) {
            (Ok(()), Fate::InPlace) => Ok(path),
            (Ok(()), Fate::Moved(now)) => {
                warn(&path, "is in another directory now", "flame graph", &now);
                Ok(now)
            }
            _ => {
                let saved = self.place.save_copy(&mut self.file);
                let saved = saved.map_err(|source| OutputError::Lost { path: path.clone(), source })?;
                warn(
                    &path,
                    "cannot be replaced any more (its folder is gone, or it is a folder)",
                    "flame graph",
                    &saved,
                );
                Ok(saved)
            }
        }
    }

    fn move_in(&mut self) -> io::Result<()> {
        if !self.named {
            self.place.give_name(&self.file, &self.name)?;
            self.named = true;
        }
        let old = self.keep_old();
        self.place.take_in(&self.name).inspect_err(|_| put_back(&self.place, old.as_ref()))?;
        self.named = false;
        Ok(())
    }

    /// An older flame graph is kept beside the older recording; where it cannot be, it is replaced all the same.
    fn keep_old(&self) -> Option<OsString> {
        let found = self.place.look().ok()??;
        let old = self.place.name_with(".old");
        let is_file = matches!(kind(&found), Kind::File);
        (is_file && self.place.put_aside(&old).is_ok()).then_some(old)
    }
}

impl Drop for Svg {
    fn drop(&mut self) {
        if self.named {
            // Best effort: the folder may be gone.
            let _ = self.place.remove(&self.name);
        }
    }
}

fn warn(path: &Path, happened: &str, what: &str, now: &Path) {
    log::warn!("{} {happened}: the {what} is saved as {}", path.display(), now.display());
}

/// `.NAME.PID`, which nobody else uses at the same time.
fn hidden(place: &Place) -> OsString {
    let mut name = OsString::from(".");
    name.push(place.name_with(&format!(".{}", std::process::id())));
    name
}

/// What file systems say that have no files without a name, and kernels that do not know the flag (open(2), `O_TMPFILE`).
fn has_no_unnamed(error: &io::Error) -> bool {
    let known = [Errno::EOPNOTSUPP, Errno::EISDIR, Errno::EINVAL, Errno::ENOENT];
    error.raw_os_error().is_some_and(|code| known.contains(&Errno::from_raw(code)))
}

#[cfg(test)]
mod tests {
    use super::{MODE, Place, Recording, Svg, hidden};
    use std::fs;
    use std::path::Path;

    fn place(path: &Path) -> Place {
        Place::open(path).unwrap().unwrap()
    }

    /// Where the file system has no files without a name, the flame graph has a hidden one until it is put into its place, and nothing is left
    /// of it when there is none to put. An older flame graph is kept, as an older recording is.
    #[test]
    fn a_hidden_name_does_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.svg");
        let named = || {
            let place = place(&path);
            let name = hidden(&place);
            let file = place.create(&name, MODE).unwrap();
            Svg { place, file, name, named: true, whose: String::new() }
        };
        let count = || fs::read_dir(dir.path()).unwrap().count();
        drop(named());
        assert_eq!(count(), 0);
        fs::write(&path, "older").unwrap();
        let mut svg = named();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count()), ("older", 2));
        assert_eq!(svg.put(b"newer").unwrap(), path);
        drop(svg);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count()), ("newer", 2));
        assert_eq!(fs::read_to_string(dir.path().join("x.svg.old")).unwrap(), "older");
    }

    /// A file that is discarded takes nothing with it that somebody else has put into its place.
    #[test]
    fn what_is_not_ours_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.data");
        let maker = super::Maker { whose: String::new() };
        let recording: Recording = maker.recording(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        recording.discard();
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }

    /// A path that names no file in a folder is no place.
    #[test]
    fn no_places() {
        for path in [".", "/", "/tmp/", "..", ""] {
            assert!(Place::open(Path::new(path)).unwrap().is_none(), "{path:?}");
        }
        assert!(Place::open(Path::new("/no/such/folder/x")).is_err());
    }
}
