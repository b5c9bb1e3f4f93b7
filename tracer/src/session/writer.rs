//! The thread that writes the recording.
//!
//! Leaves out the file's form (`profile::file`) and its place (`finisher/`).

use super::others::Others;
use energy_trace_model::recording::file::{FileError, RecordingWriter};
use energy_trace_model::recording::record::Record;
use energy_trace_system::threads::on_thread;
use std::io;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;

/// Writes the opening at once, so that whatever happens from now on leaves a recording, and then what comes, on a thread of its own, until
/// every sender is gone; the receiver learns how it ended, early when the disk is full.
pub(super) fn write_all(
    mut writer: RecordingWriter,
    opening: &[Record],
    records: Receiver<Record>,
    hides: bool,
) -> io::Result<oneshot::Receiver<Result<(), FileError>>> {
    let opened = opening.iter().try_for_each(|record| writer.write(record)).and_then(|()| writer.flush());
    on_thread("writer", move || {
        let mut others = Others::default();
        let mut change = |record: &mut Record| {
            if hides {
                others.hide(record);
            }
        };
        opened.and_then(|()| writer.write_from(&records, &mut change))
    })
}
