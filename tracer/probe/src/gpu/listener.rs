//! Listens to the libraries that were injected into programs: each connects to our socket and sends frames (`energy_trace_cupti::wire`).
//!
//! A thread accepts at each socket (programs below other roots have one of their own), and each program has a thread that reads. Who may send
//! is another's business (`connections.rs`). What was sent and not taken has its limit in bytes: beyond it frames are dropped and counted, and no
//! program ever waits for us. Leaves out what the frames mean (`kernels`).

use super::connections::{Connection, Connections, Peer};
use energy_trace_cupti::wire::{Frame, Nonsense, decode};
use energy_trace_model::ids::Pid;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two looks at whether to stop, in milliseconds.
const LOOK_MS: u16 = 50;
const PIECE: usize = 1 << 16;
/// Bytes of frames that wait to be taken.
const MOST_QUEUED: usize = 16 << 20;

/// One message of a program's library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// A number for each connection.
    pub(crate) connection: u64,
    pub(crate) pid: Pid,
    pub(crate) message: Message,
    /// What it took on its way.
    bytes: usize,
}

/// What a library sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Frame(Frame),
    /// What came is not what such a library sends.
    Nonsense(Nonsense),
    /// Nothing follows.
    End,
}

/// All connections.
pub(crate) struct Listener {
    received: Receiver<Received>,
    acceptor: Acceptor,
}

/// What the threads that accept share.
#[derive(Clone)]
struct Acceptor {
    sender: Sender<Received>,
    /// The number of the last connection.
    last: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    connections: Arc<Connections>,
    /// Bytes that wait, and frames that found no room.
    queued: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

impl Listener {
    /// Begins to listen.
    pub(crate) fn start(socket: UnixListener) -> io::Result<Self> {
        let (sender, received) = channel();
        let (last, stop, connections) = (Arc::default(), Arc::default(), Arc::default());
        let (queued, lost) = (Arc::default(), Arc::default());
        let listener =
            Self { received, acceptor: Acceptor { sender, last, stop, connections, queued, lost } };
        listener.listen_to(socket)?;
        Ok(listener)
    }

    /// Listens at another socket as well.
    pub(crate) fn listen_to(&self, socket: UnixListener) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let acceptor = self.acceptor.clone();
        std::thread::Builder::new().name("energy-cupti".into()).spawn(move || accept(&socket, &acceptor))?;
        Ok(())
    }

    /// What was sent since the last call.
    pub(crate) fn take(&self) -> Vec<Received> {
        let received: Vec<Received> = self.received.try_iter().collect();
        self.acceptor
            .queued
            .fetch_sub(received.iter().map(|received| received.bytes).sum(), Ordering::AcqRel);
        received
    }

    /// Accepts connections of processes of which this is true: whoever is recorded.
    pub(crate) fn verify(&self, is_known: impl Fn(Pid) -> bool) {
        self.acceptor.connections.verify(is_known);
    }

    /// A process is gone.
    pub(crate) fn forget(&self, pid: Pid) {
        self.acceptor.connections.forget(pid);
    }

    /// Frames that found no room, and connections that were turned away.
    pub(crate) fn rejected(&self) -> (u64, u64) {
        (self.acceptor.lost.load(Ordering::Relaxed), self.acceptor.connections.refused())
    }

    /// Waits until all programs have hung up, or so long: those that run on send ten times a second.
    pub(crate) fn wait(&self, patience: Duration, is_known: impl Fn(Pid) -> bool) {
        let until = Instant::now() + patience;
        // Who has just connected may not be counted yet.
        std::thread::sleep(Duration::from_millis(1));
        while self.acceptor.connections.open() > 0 && Instant::now() < until {
            self.verify(&is_known);
            std::thread::sleep(Duration::from_millis(2));
        }
        self.acceptor.stop.store(true, Ordering::Release);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.acceptor.stop.store(true, Ordering::Release);
    }
}

fn accept(socket: &UnixListener, acceptor: &Acceptor) {
    while !acceptor.stop.load(Ordering::Acquire) {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let _interrupted = poll(&mut fds, PollTimeout::from(LOOK_MS));
        while let Ok((stream, _)) = socket.accept() {
            let Some(connection) = Peer::of(&stream).and_then(|peer| acceptor.connections.admit(peer)) else {
                continue;
            };
            let number = acceptor.last.fetch_add(1, Ordering::Relaxed) + 1;
            let own = acceptor.clone();
            let started = std::thread::Builder::new()
                .name("energy-cupti".into())
                .spawn(move || own.receive(stream, number, connection));
            if started.is_err() {
                acceptor.connections.leave();
            }
        }
    }
}

impl Acceptor {
    /// Reads what one program sends, if it is one that is recorded.
    fn receive(&self, stream: UnixStream, number: u64, connection: Connection) {
        if self.connections.is_verified_in_time(connection, || self.stop.load(Ordering::Acquire)) {
            let send = |message, bytes| {
                self.pass_on(Received { connection: number, pid: connection.peer.pid, message, bytes })
            };
            listen(stream, &self.stop, &send);
            send(Message::End, 0);
        }
        self.connections.leave();
    }

    /// Passes on what was sent; false where nobody listens any more. A frame that finds no room is lost and counted.
    fn pass_on(&self, received: Received) -> bool {
        if received.bytes > 0 && self.queued.load(Ordering::Acquire) + received.bytes > MOST_QUEUED {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.queued.fetch_add(received.bytes, Ordering::AcqRel);
        self.sender.send(received).is_ok()
    }
}

/// Reads frames until the program hangs up, sends nonsense, or nobody listens any more.
fn listen(mut stream: UnixStream, stop: &AtomicBool, send: &impl Fn(Message, usize) -> bool) {
    let patience = Some(Duration::from_millis(LOOK_MS.into()));
    if stream.set_nonblocking(false).is_err() || stream.set_read_timeout(patience).is_err() {
        return;
    }
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    while !stop.load(Ordering::Acquire) {
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(_) => return,
        }
        let mut taken = 0;
        loop {
            match decode(&bytes[taken..]) {
                Ok(Some((frame, length))) => {
                    taken += length;
                    if !send(Message::Frame(frame), length) {
                        return;
                    }
                }
                Ok(None) => break,
                Err(nonsense) => {
                    send(Message::Nonsense(nonsense), 0);
                    return;
                }
            }
        }
        bytes.drain(..taken);
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Listener, Message};
    use energy_trace_cupti::wire::encode;
    use std::io::Write as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    /// Frames of two programs come whole, each with its process, also where they were cut in pieces; bytes that are none end a connection.
    #[test]
    fn frames_come_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::start(UnixListener::bind(&path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        encode(&Frame::Name(1, "gemm".to_owned()), &mut bytes);
        let mut good = UnixStream::connect(&path).unwrap();
        good.write_all(&bytes[..7]).unwrap();
        let mut bad = UnixStream::connect(&path).unwrap();
        bad.write_all(&[1, 0, 0, 0, 99]).unwrap();
        good.write_all(&bytes[7..]).unwrap();
        drop((good, bad));
        // The accepting thread may not have seen them yet.
        std::thread::sleep(Duration::from_millis(300));
        let own = |pid: super::Pid| pid.get() == std::process::id();
        listener.wait(Duration::from_secs(20), own);
        let mut messages = listener.take();
        assert!(messages.iter().all(|received| received.pid.get() == std::process::id()));
        messages.sort_by_key(|received| received.connection);
        let messages: Vec<Message> = messages.into_iter().map(|received| received.message).collect();
        assert_eq!(messages[..2], [Message::Frame(Frame::Name(1, "gemm".to_owned())), Message::End]);
        assert!(matches!(messages[2..], [Message::Nonsense(_), Message::End]), "{messages:?}");
    }

    /// Frames of a program that nobody takes are dropped beyond a limit and counted, and the program is never kept waiting; an unverified one sends
    /// nothing that is taken.
    #[test]
    fn a_flood_and_an_unverified_sender() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::start(UnixListener::bind(&path).unwrap()).unwrap();
        let mut frame = Vec::new();
        encode(&Frame::Name(1, "n".repeat(16_000)), &mut frame);
        let mut unverified = UnixStream::connect(&path).unwrap();
        unverified.write_all(&frame).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        listener.wait(Duration::from_millis(100), |_| false);
        assert!(listener.take().is_empty());

        let listener = Listener::start(UnixListener::bind(folder.path().join("other")).unwrap()).unwrap();
        let mut program = UnixStream::connect(folder.path().join("other")).unwrap();
        // The accepting thread may not have seen it yet.
        std::thread::sleep(Duration::from_millis(200));
        listener.verify(|_| true);
        (0..3000).for_each(|_| program.write_all(&frame).unwrap());
        drop(program);
        listener.wait(Duration::from_secs(20), |_| true);
        let received_count = listener.take().len() as u64;
        let (lost, refused) = listener.rejected();
        assert_eq!((received_count + lost, refused), (3001, 0), "{received_count} received, {lost} lost");
        assert!((1000..1100).contains(&received_count), "{received_count}");
    }
}
