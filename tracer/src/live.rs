//! A recording that is taken from a pipe while it is made, and kept in no file.
//!
//! Leaves out who takes it: a screen (`top`), an agent (`agent`).

use energy_trace_report::agent_page::OwnShare;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// So much of what comes is left for the next window: slices are ended once a second, and records gathered for a second.
pub(crate) const LAG: Duration = Duration::from_millis(2_500);
/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 18;

/// Who takes it, in the finisher's process.
pub(crate) trait Watcher {
    /// The end for the recorder, once.
    fn take_writing_end(&mut self) -> Option<OwnedFd>;

    /// The recording begins.
    fn begin(&mut self);

    /// So many events were lost so far, and what the recorder takes.
    fn hear(&mut self, _lost: u64, _share: OwnShare) {}

    /// The recording has ended: what is left is taken. Why it was not all taken, if it was not.
    fn end(&mut self) -> Result<(), String>;
}

/// Both ends of the pipe, until somebody has them.
pub(crate) struct Pipe {
    pub(crate) reading: Option<File>,
    pub(crate) writing: Option<OwnedFd>,
}

impl Pipe {
    /// Makes it.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(crate) fn new() -> io::Result<Self> {
        let (reading, writing) = pipe2(OFlag::O_CLOEXEC)?;
        // More than a second of records; where it may not be so large it is as it was.
        let _ = nix::fcntl::fcntl(&reading, nix::fcntl::FcntlArg::F_SETPIPE_SZ(1 << 20));
        Ok(Self { reading: Some(reading.into()), writing: Some(writing) })
    }

    /// Closes what nobody has taken.
    pub(crate) fn close(&mut self) {
        (self.reading, self.writing) = (None, None);
    }
}
