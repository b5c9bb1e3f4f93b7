//! Where a command writes: stdout or a file. A reader that closes the pipe early (`| head`) is no failure.

use super::failure::Failure;
use super::range::RangeArgs;
use energy_trace_attribution::{attribute_over_time_owned, attribute_owned};
use energy_trace_export::Object;
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::{self, FileError};
use energy_trace_system::allocator::{READING, keep_small_blocks, return_large_blocks};
use nix::unistd::geteuid;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Readable by its owner only.
const PRIVATE: u32 = 0o600;
/// The same of a folder.
const PRIVATE_FOLDER: u32 = 0o700;

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Reads a recording and attributes its energy as the user chose, or that of the chosen part of it.
pub(super) fn read_part(path: &Path, options: &Options, range: RangeArgs) -> Result<Profile, Failure> {
    part_of(read_recording(path)?, options, range)
}

/// Attributes the energy of a recording, or of the chosen part of it.
pub(super) fn part_of(recording: Recording, options: &Options, range: RangeArgs) -> Result<Profile, Failure> {
    if !range.is_part() {
        return Ok(attribute_owned(recording, options));
    }
    let (profile, over_time) = attribute_over_time_owned(recording, options);
    let bins = range.bins(&over_time.bins)?;
    Ok(over_time.within(profile, bins))
}

/// Reads a recording; `-` is standard input. What is made of it for a moment goes back to the system afterwards: of
/// ten million samples that is 50 MB.
pub(super) fn read_recording(path: &Path) -> Result<Recording, Failure> {
    return_large_blocks(READING);
    keep_small_blocks();
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    file::read(path).map_err(|e| Failure::own(&e).advise(advice(&e)))
}

/// What a user behind sudo may not know.
fn advice(error: &FileError) -> Option<String> {
    let FileError::Read { source, .. } = error else { return None };
    let denied = source.kind() == io::ErrorKind::PermissionDenied && std::env::var_os("SUDO_UID").is_some();
    denied.then(|| {
        "the file was opened as the user who called sudo; for a recording that belongs to root: \
         sudo env -u SUDO_UID energy-trace …"
            .to_owned()
    })
}

/// Writes to `path`, or to stdout when there is none or it is `-`; not over a recording.
///
/// The result is made in memory first, so that a failure leaves no half of a file behind.
pub(super) fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    if let Some(path) = path.filter(|path| file::is_recording(path)) {
        let text =
            format!("{} is a recording, which would be lost: name another file to write", path.display());
        return Err(Failure::usage(text));
    }
    write_over(path, write)
}

/// The same over anything.
pub(super) fn write_over(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    let mut whole = Vec::new();
    write(&mut whole).map_err(|e| Failure::own(&e))?;
    write_bytes(path, &whole, Mode::OfNew)
}

/// Writes a recording over anything: whoever could read the file before cannot any more.
pub(super) fn write_private(path: &Path, recording: &[u8]) -> Result<ExitCode, Failure> {
    write_bytes(Some(path), recording, Mode::OfAll)
}

/// Writes files into a folder, which is made where there is none.
pub(super) fn write_folder(folder: &Path, objects: &[Object]) -> Result<ExitCode, Failure> {
    for object in objects {
        let path = folder.join(&object.key);
        let made = path
            .parent()
            .map_or(Ok(()), |parent| DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(parent));
        made.map_err(|source| Failure::own(&WriteError { path: path.clone(), source }))?;
        write_to(Some(&path), |out| out.write_all(&object.bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Which files only their owner can read: as the recording, of which they are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// New ones; whoever opened an older one to others meant that.
    OfNew,
    /// All.
    OfAll,
}

fn write_bytes(path: Option<&Path>, whole: &[u8], mode: Mode) -> Result<ExitCode, Failure> {
    let (name, written) = match path.map(|path| (path, path.to_str())) {
        None | Some((_, Some("-" | "/dev/stdout" | "/dev/fd/1"))) => {
            (Path::new("stdout"), write_stdout(whole))
        }
        // As they are open: a pipe of root's cannot be opened anew by the user.
        Some((path, Some("/dev/stderr" | "/dev/fd/2"))) => (path, io::stderr().write_all(whole)),
        Some((path, _)) => (path, write_file(path, whole, mode)),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::own(&WriteError { path: name.to_owned(), source: error }))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The invoking user may write to whatever that user may write to. Root follows a link only where root alone can have made it:
/// in `/dev` (`/dev/stdout`), not in somebody's folder.
fn write_file(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(mode == Mode::OfNew).mode(PRIVATE);
    if geteuid().is_root() && !is_roots_folder(path.parent()) {
        open.custom_flags(libc::O_NOFOLLOW);
    }
    match open.open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(io::Error::other(
            "it is a link in another user's folder, which root does not follow; name the file itself",
        )),
        opened => {
            let mut file = opened?;
            if mode == Mode::OfAll && file.metadata()?.is_file() {
                file.set_permissions(Permissions::from_mode(PRIVATE))?;
                file.set_len(0)?;
            }
            file.write_all(bytes)
        }
    }
}

/// Whether nobody but root can make a link in a folder.
fn is_roots_folder(folder: Option<&Path>) -> bool {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::metadata(folder).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    out.write_all(bytes)?;
    out.flush()
}
