//! Where printed bytes come from: copies of what is passed on, or the plain file that stdout is.
//!
//! Leaves out what they mean (`lines.rs`).

use super::forward::{HEAD, PIECE};
use energy_trace_model::clock::KtimeNs;
use energy_trace_system::clock::now;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Between two looks at a file, and how long bytes are waited for.
const PERIOD: Duration = Duration::from_millis(50);
/// Most bytes of a file that are read at once: what is written faster is passed over.
const MOST: u64 = 1 << 20;

/// Printed bytes, in pieces.
pub(super) enum Printed {
    /// Copies of what is passed on.
    Copies(OwnedFd),
    /// The file that the command's stdout is, and up to where it was read.
    File(File, u64),
}

/// A piece of what was printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: KtimeNs,
    /// Whether something before it is missing.
    pub(super) is_behind_gap: bool,
    pub(super) bytes: Vec<u8>,
}

impl Printed {
    /// From our own stdout, which is the command's too, from its end on.
    ///
    /// # Errors
    /// When the user may not read it.
    pub(super) fn of_own_stdout() -> io::Result<Self> {
        let file = File::open("/proc/self/fd/1")?;
        let end = file.metadata()?.len();
        Ok(Self::File(file, end))
    }

    /// How far the time of a piece may be off, in nanoseconds.
    pub(super) const fn within_ns(&self) -> u64 {
        match self {
            Self::Copies(_) => 0,
            Self::File(..) => PERIOD.as_nanos() as u64 / 2,
        }
    }

    /// Waits until there may be something.
    pub(super) fn wait(&self) {
        match self {
            Self::Copies(socket) => {
                let timeout = PollTimeout::try_from(PERIOD).unwrap_or(PollTimeout::ZERO);
                // Whatever it says, the next look tells.
                let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], timeout);
            }
            Self::File(..) => std::thread::sleep(PERIOD),
        }
    }

    /// The next piece, if it is there now; an error once there will be none.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        match self {
            Self::Copies(socket) => next_copy(socket),
            Self::File(file, read_up_to) => next_of_file(file, read_up_to),
        }
    }
}

fn next_copy(socket: &OwnedFd) -> io::Result<Option<Piece>> {
    let mut message = vec![0; HEAD + PIECE];
    match recv(socket.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => {
            message.truncate(length);
            let bytes = message.split_off(HEAD.min(length));
            let Some((at, rest)) = message.split_first_chunk() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let at = KtimeNs::from_ns(u64::from_le_bytes(*at));
            Ok(Some(Piece { at, is_behind_gap: rest != [0], bytes }))
        }
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn next_of_file(file: &File, read_up_to: &mut u64) -> io::Result<Option<Piece>> {
    let length = file.metadata()?.len();
    // It was cut, and is written anew.
    let from = if length < *read_up_to { 0 } else { *read_up_to };
    let skipped = (length - from).saturating_sub(MOST);
    let mut bytes = vec![0; usize::try_from(length - from - skipped).unwrap_or(0)];
    let read = file.read_at(&mut bytes, from + skipped)?;
    bytes.truncate(read);
    let is_behind_gap = skipped > 0 || from != *read_up_to;
    *read_up_to = from + skipped + read as u64;
    // It was written since the last look.
    let at = KtimeNs::from_ns(now().as_ns().saturating_sub(PERIOD.as_nanos() as u64 / 2));
    Ok((read > 0).then_some(Piece { at, is_behind_gap, bytes }))
}

#[cfg(test)]
mod tests {
    use super::{HEAD, KtimeNs, MOST, Piece, Printed};
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
    use std::io::{Seek as _, Write as _};
    use std::os::fd::AsRawFd as _;

    /// A copy has its time and whether something is missing before it; half a head is no message, and the end is an error.
    #[test]
    fn copies() {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::empty()).unwrap();
        let mut printed = Printed::Copies(ours);
        assert_eq!(printed.next().unwrap(), None);
        let mut message = 7_u64.to_le_bytes().to_vec();
        message.extend(b"\x01step");
        assert_eq!(message.len(), HEAD + 4);
        for message in [&message[..], b"half"] {
            send(theirs.as_raw_fd(), message, MsgFlags::empty()).unwrap();
        }
        let piece = Piece { at: KtimeNs::from_ns(7), is_behind_gap: true, bytes: b"step".to_vec() };
        assert_eq!(printed.next().unwrap(), Some(piece));
        assert!(printed.next().is_err());
        drop(theirs);
        assert!(printed.next().is_err());
    }

    /// Of a file comes what was added; what is too much at once is passed over, and one that was cut begins anew.
    #[test]
    fn files() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"old").unwrap();
        let mut printed = Printed::File(file.try_clone().unwrap(), 3);
        let mut next = || printed.next().unwrap().map(|piece| (piece.is_behind_gap, piece.bytes.len()));
        assert_eq!(next(), None);
        file.write_all(b"new").unwrap();
        assert_eq!((next(), next()), (Some((false, 3)), None));
        let most = usize::try_from(MOST).unwrap();
        file.write_all(&vec![b'x'; most + 5]).unwrap();
        assert_eq!((next(), next()), (Some((true, most)), None));
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"n").unwrap();
        assert_eq!(next(), Some((true, 1)));
    }
}
