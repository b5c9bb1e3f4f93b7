//! Listens to the libraries that were injected into programs: each connects to our socket and sends frames (`energy_trace_cupti::wire`).
//!
//! A thread accepts at each socket (programs below other roots have one of their own), and each program has a thread that reads. The kernel says who is at the other end, in our numbers, also where the
//! program lives in a pid namespace of its own. Leaves out what the frames mean (`kernels`).

use crate::ids::Pid;
use energy_trace_cupti::wire::{Frame, Nonsense, decode};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two looks at whether to stop, in milliseconds.
const LOOK_MS: u16 = 50;
const PIECE: usize = 1 << 16;

/// What a program's library says.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::probe) struct Told {
    /// A number for each connection.
    pub(in crate::probe) connection: u64,
    pub(in crate::probe) pid: Pid,
    pub(in crate::probe) what: Said,
}

/// One thing that is said.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::probe) enum Said {
    Frame(Frame),
    /// What came is not what such a library sends.
    Nonsense(Nonsense),
    /// Nothing follows.
    End,
}

/// All connections.
pub(in crate::probe) struct Listener {
    told: Receiver<Told>,
    door: Door,
}

/// What the threads that accept share.
#[derive(Clone)]
struct Door {
    sender: Sender<Told>,
    /// The number of the last connection.
    last: Arc<AtomicU64>,
    open: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Listener {
    /// Begins to listen.
    pub(in crate::probe) fn start(socket: UnixListener) -> io::Result<Self> {
        let (sender, told) = channel();
        let (last, open, stop) = (Arc::default(), Arc::default(), Arc::default());
        let listener = Self { told, door: Door { sender, last, open, stop } };
        listener.listen_to(socket)?;
        Ok(listener)
    }

    /// Listens at another socket as well.
    pub(in crate::probe) fn listen_to(&self, socket: UnixListener) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let door = self.door.clone();
        std::thread::Builder::new().name("energy-cupti".into()).spawn(move || accept(&socket, &door))?;
        Ok(())
    }

    /// What was said since the last call.
    pub(in crate::probe) fn take(&self) -> Vec<Told> {
        self.told.try_iter().collect()
    }

    /// Waits until all programs have hung up, or so long: those that run on send ten times a second.
    pub(in crate::probe) fn wait(&self, patience: Duration) {
        let until = Instant::now() + patience;
        // Who has just connected may not be counted yet.
        std::thread::sleep(Duration::from_millis(1));
        while self.door.open.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.door.stop.store(true, Ordering::Release);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.door.stop.store(true, Ordering::Release);
    }
}

fn accept(socket: &UnixListener, Door { sender, last, open, stop }: &Door) {
    while !stop.load(Ordering::Acquire) {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let _interrupted = poll(&mut fds, PollTimeout::from(LOOK_MS));
        while let Ok((stream, _)) = socket.accept() {
            let Some(pid) = read_peer(&stream) else { continue };
            let connection = last.fetch_add(1, Ordering::Relaxed) + 1;
            open.fetch_add(1, Ordering::AcqRel);
            let (told, opened, stopped) = (sender.clone(), Arc::clone(open), Arc::clone(stop));
            let listen = move || {
                let tell = |what| told.send(Told { connection, pid, what }).is_ok();
                listen(stream, &stopped, &tell);
                tell(Said::End);
                opened.fetch_sub(1, Ordering::AcqRel);
            };
            if std::thread::Builder::new().name("energy-cupti".into()).spawn(listen).is_err() {
                open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// Reads frames until the program hangs up, talks nonsense, or nobody listens any more.
fn listen(mut stream: UnixStream, stop: &AtomicBool, tell: &impl Fn(Said) -> bool) {
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
                    if !tell(Said::Frame(frame)) {
                        return;
                    }
                }
                Ok(None) => break,
                Err(nonsense) => {
                    tell(Said::Nonsense(nonsense));
                    return;
                }
            }
        }
        bytes.drain(..taken);
    }
}

/// The process at the other end (SO_PEERCRED, unix(7)), by its number here.
fn read_peer(stream: &UnixStream) -> Option<Pid> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = u32::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the descriptor is open, and the buffer is as long as is said.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    } != 0;
    u32::try_from(peer.pid).ok().filter(|&pid| !failed && pid != 0).map(Pid::new)
}

#[cfg(test)]
mod tests {
    use super::{Frame, Listener, Said};
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
        listener.wait(Duration::from_secs(20));
        let mut said = listener.take();
        assert!(said.iter().all(|told| told.pid.get() == std::process::id()));
        said.sort_by_key(|told| told.connection);
        let said: Vec<Said> = said.into_iter().map(|told| told.what).collect();
        assert_eq!(said[..2], [Said::Frame(Frame::Name(1, "gemm".to_owned())), Said::End]);
        assert!(matches!(said[2..], [Said::Nonsense(_), Said::End]), "{said:?}");
    }
}
