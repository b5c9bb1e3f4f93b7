//! A socket between two roles: typed messages with open files beside them.
//!
//! A message is its length, the number of files, and what postcard makes of it. Nothing is believed: a length beyond what the caller allows,
//! more files than a message may have, or bytes that are no message of the type are errors, and a deadline ends a wait for a peer that does
//! not answer. Leaves out what the messages mean.

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, recvmsg, send, sendmsg, shutdown,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Files that one message may bring.
pub const MOST_FILES: usize = 32;
/// Bytes of a message's head: its length and the number of files.
const HEAD: usize = 8;

/// Why a message did not get through.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer closed its end: it has ended.
    #[error("the other process has ended")]
    Closed,
    /// The deadline passed.
    #[error("the other process did not answer in time")]
    TimedOut,
    /// The peer sent what is no message.
    #[error("the other process sent {0}")]
    Malformed(&'static str),
    /// The system's error.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::EPIPE | Errno::ECONNRESET => Self::Closed,
            error => Self::Io(error.into()),
        }
    }
}

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
}

impl Channel {
    /// Both ends of a new one; both are closed on `exec`.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    /// The end that an open socket is.
    pub fn over(socket: OwnedFd) -> Self {
        Self { socket: socket.into() }
    }

    /// Ends it for both sides, whoever else holds this end: what is read from now on is the end.
    pub fn shut(&self) {
        // It may have ended already.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }

    /// The socket, for another process.
    pub fn into_socket(self) -> OwnedFd {
        self.socket.into()
    }

    /// Sends a message and copies of these files.
    ///
    /// # Errors
    /// When the peer has ended, takes nothing for `patience`, or the message is too long for a length of 32 bits.
    pub fn send(
        &self,
        message: &impl Serialize,
        files: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(), ChannelError> {
        let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
        self.send_body(&body, files, deadline(patience))
    }

    /// The same for messages of all types.
    fn send_body(
        &self,
        body: &[u8],
        files: &[BorrowedFd<'_>],
        deadline: Option<Instant>,
    ) -> Result<(), ChannelError> {
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let count = u32::try_from(files.len()).map_err(io::Error::other)?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(count.to_le_bytes());
        bytes.extend(body);
        let raw: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let first = [IoSlice::new(&bytes)];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let mut sent = loop {
            match sendmsg::<()>(self.socket.as_raw_fd(), &first, rights, flags, None) {
                Err(Errno::EAGAIN | Errno::EINTR) => self.ready(PollFlags::POLLOUT, deadline)?,
                sent => break sent?,
            }
        };
        while sent < bytes.len() {
            self.ready(PollFlags::POLLOUT, deadline)?;
            match send(self.socket.as_raw_fd(), bytes.get(sent..).unwrap_or_default(), flags) {
                Ok(more) => sent += more,
                Err(Errno::EAGAIN | Errno::EINTR) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for a message of `most` bytes at the most, and the files that came with it.
    ///
    /// # Errors
    /// When the peer has ended, says nothing for `patience`, or sends something else.
    pub fn receive<T: DeserializeOwned>(
        &self,
        most: usize,
        patience: Option<Duration>,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let (body, files) = self.receive_body(most, deadline(patience))?;
        let message = postcard::from_bytes(&body);
        Ok((message.map_err(|_| ChannelError::Malformed("a message that makes no sense"))?, files))
    }

    /// The same for messages of all types.
    fn receive_body(
        &self,
        most: usize,
        deadline: Option<Instant>,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
        let mut files = Vec::new();
        let mut head = [0; HEAD];
        self.fill(&mut head, &mut files, deadline)?;
        let (length, count) = head.split_at(HEAD / 2);
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX) as usize;
        if number(length) > most {
            return Err(ChannelError::Malformed("a message that is too long"));
        }
        let mut body = vec![0; number(length)];
        self.fill(&mut body, &mut files, deadline)?;
        if files.len() != number(count) {
            return Err(ChannelError::Malformed("a message without its files"));
        }
        Ok((body, files))
    }

    /// Reads until the buffer is full. Files come with the bytes that they were sent beside.
    fn fill(
        &self,
        buffer: &mut [u8],
        files: &mut Vec<OwnedFd>,
        deadline: Option<Instant>,
    ) -> Result<(), ChannelError> {
        let mut at = 0;
        while let Some(rest) = buffer.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match self.read_some(rest, files) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(read) => at += read,
                Err(Errno::EAGAIN | Errno::EINTR) => self.ready(PollFlags::POLLIN, deadline)?,
                Err(error) => return Err(error.into()),
            }
            if files.len() > MOST_FILES {
                return Err(ChannelError::Malformed("too many files"));
            }
        }
        Ok(())
    }

    fn read_some(&self, buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
        let mut room = cmsg_space!([RawFd; MOST_FILES]);
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut room), flags)?;
        for message in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(new) = message {
                // SAFETY: the kernel has just made these descriptors for us, and nobody else owns them.
                files.extend(new.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        Ok(got.bytes)
    }

    /// Waits for the begin of a message, or its sender's end. Whether there is one.
    ///
    /// # Errors
    /// When the socket cannot be waited for.
    pub fn is_answering(&self, within: Duration) -> Result<bool, ChannelError> {
        match self.ready(PollFlags::POLLIN, deadline(Some(within))) {
            Err(ChannelError::TimedOut) => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn ready(&self, what: PollFlags, deadline: Option<Instant>) -> Result<(), ChannelError> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                // Rounded up: a wait of less than a millisecond is not a busy loop.
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut [PollFd::new(self.socket.as_fd(), what)], timeout) {
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Err(ChannelError::TimedOut),
                Ok(0) | Err(Errno::EINTR) => (),
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn deadline(patience: Option<Duration>) -> Option<Instant> {
    patience.and_then(|patience| Instant::now().checked_add(patience))
}

#[cfg(test)]
mod tests {
    use super::{Channel, ChannelError};
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    const SHORT: Option<Duration> = Some(Duration::from_millis(20));

    /// A message arrives as it was sent, with an open file beside it, whatever its length.
    #[test]
    fn messages_and_files() {
        let (one, other) = Channel::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"inside").unwrap();
        let long = vec![7_u8; 3 << 20];
        let sender = std::thread::spawn(move || {
            one.send(&(long, "text"), &[file.as_fd()], None).unwrap();
            one
        });
        let ((bytes, text), files): ((Vec<u8>, String), _) = other.receive(4 << 20, None).unwrap();
        assert_eq!((bytes.len(), text.as_str(), files.len()), (3 << 20, "text", 1));
        let mut file = File::from(files.into_iter().next().unwrap());
        let mut inside = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut inside).unwrap();
        assert_eq!(inside, "inside");
        sender.join().unwrap();
    }

    /// Silence, an end, a message that is too long, one of another type: each is its own error, and none a panic.
    #[test]
    fn what_goes_wrong() {
        let (one, other) = Channel::pair().unwrap();
        assert!(matches!(other.receive::<u32>(8, SHORT), Err(ChannelError::TimedOut)));
        one.send(&vec![0_u8; 100], &[], None).unwrap();
        assert!(matches!(other.receive::<Vec<u8>>(8, SHORT), Err(ChannelError::Malformed(_))));
        let (one, other) = Channel::pair().unwrap();
        one.send(&1_u8, &[], None).unwrap();
        assert!(matches!(other.receive::<(String, u64)>(64, SHORT), Err(ChannelError::Malformed(_))));
        drop(one);
        assert!(matches!(other.receive::<u32>(8, None), Err(ChannelError::Closed)));
        assert!(matches!(other.send(&1_u8, &[], None), Err(ChannelError::Closed)));
    }
}
