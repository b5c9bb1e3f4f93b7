//! The recording on its way to whoever had itself recorded through a socket (`--attach-socket`): a line of JSON, then its bytes.
//!
//! Leaves out how the recording ended (`session/`).

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// So long somebody may take to read it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends it. That nobody is there any more is no error.
///
/// # Errors
/// When it is not read in time, or cannot be read here.
pub(super) fn send_back(mut recording: &File, to: BorrowedFd<'_>, patience: Duration) -> io::Result<()> {
    let end = Instant::now() + patience;
    let told = serde_json::json!({ "event": "recorded", "bytes": recording.metadata()?.len() });
    recording.rewind()?;
    let mut sent = send_all(to, format!("{told}\n").as_bytes(), end);
    let mut buffer = vec![0; 1 << 16];
    while sent.is_ok() {
        match recording.read(&mut buffer)? {
            0 => break,
            read => sent = send_all(to, buffer.get(..read).unwrap_or_default(), end),
        }
    }
    match sent {
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
        sent => sent,
    }
}

fn send_all(to: BorrowedFd<'_>, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(to.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(Errno::EAGAIN) => wait_for_room(to, end)?,
            Err(Errno::EINTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(to: BorrowedFd<'_>, end: Instant) -> io::Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    let milliseconds = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    let is_late = left.is_zero() || poll(&mut [PollFd::new(to, PollFlags::POLLOUT)], milliseconds)? == 0;
    if is_late {
        Err(io::Error::new(ErrorKind::TimedOut, "the recording was not read in time"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, ErrorKind, Instant, send_back};
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    /// More than a socket keeps.
    fn recording() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 4 << 20]).unwrap();
        file
    }

    /// Whoever reads gets a line that says how long it is, and all of it.
    #[test]
    fn all_of_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let (mut theirs, mut line, mut bytes) = (BufReader::new(theirs), String::new(), Vec::new());
            theirs.read_line(&mut line).unwrap();
            theirs.read_to_end(&mut bytes).unwrap();
            (line, bytes)
        });
        send_back(&recording(), ours.as_fd(), Duration::from_secs(60)).unwrap();
        drop(ours);
        let (line, bytes) = reader.join().unwrap();
        assert_eq!(line, "{\"bytes\":4194304,\"event\":\"recorded\"}\n");
        assert_eq!(bytes, vec![7; 4 << 20]);
    }

    /// Whoever does not read is not waited for longer than was said, and whoever is gone not at all.
    #[test]
    fn nobody_reads() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (begun, patience) = (Instant::now(), Duration::from_millis(200));
        let error = send_back(&recording(), ours.as_fd(), patience).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= patience);
        drop(theirs);
        send_back(&recording(), ours.as_fd(), Duration::from_hours(1)).unwrap();
    }
}
