//! The files of a recording: proved writable before the run, given to the invoking user, taken away when nothing ran.
//!
//! Leaves out their contents (`profile::file`, `report`).

use super::SessionError;
use crate::plan::RecordPlan;
use crate::profile::file::{FileError, RecordingWriter};
use crate::profile::record::Record;
use crate::target::user::InvokingUser;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;

/// Makes the recording's file and proves that the flame graph can be written later.
pub(super) fn prepare(plan: &RecordPlan) -> Result<RecordingWriter, SessionError> {
    let writer = RecordingWriter::create(&plan.recording)?;
    let rest = || {
        own(plan.owner.as_ref(), &plan.recording, "-o FILE")?;
        match &plan.svg {
            Some(svg) => check_writable(svg).map_err(|source| output_error(svg, "--svg FILE", source)),
            None => Ok(()),
        }
    };
    match rest() {
        Ok(()) => Ok(writer),
        Err(error) => {
            discard(writer);
            Err(error)
        }
    }
}

/// Takes the recording's file away and puts an older one back: nothing was recorded.
pub(super) fn discard(writer: RecordingWriter) {
    if let Err(error) = writer.discard() {
        log::warn!("{error}");
    }
}

/// Writes the flame graph and gives it to its owner.
pub(super) fn write_svg(plan: &RecordPlan, path: &Path, svg: &[u8]) -> Result<(), SessionError> {
    std::fs::write(path, svg).map_err(|source| output_error(path, "--svg FILE", source))?;
    own(plan.owner.as_ref(), path, "--svg FILE")
}

/// Writes the opening at once, so that whatever happens from now on leaves a recording, and then what comes, on a thread of its own, until
/// every sender is gone; the receiver learns how it ended, early when the disk is full.
pub(super) fn write_all(
    mut writer: RecordingWriter,
    opening: &[Record],
    records: Receiver<Record>,
) -> io::Result<oneshot::Receiver<Result<(), FileError>>> {
    let (sender, ended) = oneshot::channel();
    let opened = opening.iter().try_for_each(|record| writer.write(record)).and_then(|()| writer.flush());
    std::thread::Builder::new().name("writer".into()).spawn(move || {
        // After a second SIGINT nobody listens any more.
        let _ = sender.send(opened.and_then(|()| writer.write_from(&records)));
    })?;
    Ok(ended)
}

fn own(owner: Option<&InvokingUser>, path: &Path, option: &'static str) -> Result<(), SessionError> {
    match owner {
        Some(user) => user.own(path).map_err(|source| output_error(path, option, source)),
        None => Ok(()),
    }
}

fn output_error(path: &Path, option: &'static str, source: io::Error) -> SessionError {
    SessionError::Output { path: path.to_owned(), option, source }
}

/// Opens the file for writing without changing it; one that did not exist does not exist afterwards either.
fn check_writable(path: &Path) -> io::Result<()> {
    // Not blocking: opening a pipe would wait for its reader.
    let mut open = OpenOptions::new();
    open.write(true).custom_flags(libc::O_NONBLOCK);
    match open.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            open.create_new(true).open(path)?;
            std::fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::check_writable;

    /// The check leaves no trace: an old file keeps its bytes, and no new one appears.
    #[test]
    fn checking_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        std::fs::write(&old, "kept").unwrap();
        check_writable(&old).unwrap();
        check_writable(&new).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
    }

    /// A folder, and a file in a folder that is not there, are found out.
    #[test]
    fn what_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_writable(dir.path()).is_err());
        assert!(check_writable(&dir.path().join("none/x.svg")).is_err());
    }
}
