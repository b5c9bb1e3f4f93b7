//! `file:PATH`: a number that something keeps in a file.
//!
//! The file is opened anew for each look, as the invoking user, without waiting for whoever writes to a FIFO. Leaves out when.

use super::number::first_word;
use energy_trace_model::recording::record::{WorkFailure, WorkUnits};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Bytes that a file with a number may have.
const MOST: u64 = 4096;

/// The number in the file now.
pub(super) fn look(path: &Path) -> Result<WorkUnits, WorkFailure> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path).map_err(|e| failure(&e))?;
    if !file.metadata().map_err(|error| failure(&error))?.is_file() {
        return Err(WorkFailure::NotAFile);
    }
    let mut text = Vec::new();
    file.take(MOST + 1).read_to_end(&mut text).map_err(|error| failure(&error))?;
    if text.len() as u64 > MOST {
        return Err(WorkFailure::TooLong { most: MOST });
    }
    first_word(&text)
}

/// Why the system says no.
pub(super) fn failure(error: &io::Error) -> WorkFailure {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => WorkFailure::Missing,
        io::ErrorKind::PermissionDenied => WorkFailure::Denied,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => WorkFailure::TimedOut,
        // A socket, which cannot be opened.
        _ if error.raw_os_error() == Some(libc::ENXIO) => WorkFailure::NotAFile,
        _ => WorkFailure::System { error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, WorkFailure, WorkUnits, look};
    use nix::sys::stat::Mode;
    use std::fs;

    /// A file's number is its first word; whatever is no plain file with a number is said by its kind, and none is waited for.
    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        assert_eq!(look(&path), Err(WorkFailure::Missing));
        fs::write(&path, "12.5 tokens\n").unwrap();
        assert_eq!(look(&path), Ok(WorkUnits::from_number(12.5).unwrap()));
        fs::write(&path, "").unwrap();
        assert_eq!(look(&path), Err(WorkFailure::NoNumber));
        fs::write(&path, vec![b'1'; 5_000]).unwrap();
        assert_eq!(look(&path), Err(WorkFailure::TooLong { most: MOST }));
        assert_eq!(look(folder.path()), Err(WorkFailure::NotAFile));
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        assert_eq!(look(&fifo), Err(WorkFailure::NotAFile));
        let socket = folder.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(look(&socket), Err(WorkFailure::NotAFile));
        assert_eq!(look(std::path::Path::new("/dev/zero")), Err(WorkFailure::NotAFile));
    }
}
