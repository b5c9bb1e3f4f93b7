//! Sending the sums: ten times a second from a thread of its own, and once more when the program ends.
//!
//! What cannot be sent because nobody reads is lost with the tracer that should have read it; the program never waits for longer than
//! `PATIENCE`. Leaves out what is sent (`wire`).

use crate::wire::{Frame, MOST_SUMS, Tick, encode};
use crate::{guarded, is_forked, listen};
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two sends.
const TICK: Duration = Duration::from_millis(100);
/// The longest that a send may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The socket, until something goes wrong with it.
static SOCKET: Mutex<Option<UnixStream>> = Mutex::new(None);
/// One tick after the other: names must go before what they name.
static TURN: Mutex<()> = Mutex::new(());
/// Set once goodbye is said: nothing follows it.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Connects, begins to listen, and says how that went. Without a socket nothing is begun: it would cost the program and serve nobody.
pub(crate) fn start(path: &Path, listen: impl FnOnce() -> Result<u32, String>) {
    let Ok(socket) = UnixStream::connect(path) else { return };
    if socket.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    *lock() = Some(socket);
    let begun = listen();
    let (cupti, trouble) = match &begun {
        Ok(version) => (*version, String::new()),
        Err(why) => (0, why.clone()),
    };
    send(&[Frame::Hello { pid: std::process::id(), cupti, trouble }]);
    if begun.is_err() {
        *lock() = None;
        return;
    }
    // SAFETY: the handler is a function of this library, which the driver never unloads.
    unsafe { libc::atexit(at_exit) };
    let tick = || {
        while !is_forked() && !ENDED.load(Relaxed) && lock().is_some() {
            std::thread::sleep(TICK);
            guarded(|| listen::counted(|| ship(false)));
        }
        // At the end of the program CUPTI ends by itself.
        if !is_forked() && !ENDED.load(Relaxed) {
            guarded(listen::stop);
        }
    };
    // Without a thread everything is sent when the program ends.
    drop(std::thread::Builder::new().name("energy-trace".to_owned()).spawn(tick));
}

extern "C" fn at_exit() {
    guarded(|| {
        if !is_forked() {
            ship(true);
        }
    });
}

/// Sends what there is; `last`, also what has not ended, and goodbye.
fn ship(last: bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if ENDED.swap(last, Relaxed) {
        ENDED.store(true, Relaxed);
        return;
    }
    listen::flush(last);
    let (names, sums, untimed) = listen::tally().take();
    let (launches, dropped, cost_ns) = listen::counts();
    let at_ns = listen::monotonic_ns();
    let mut frames: Vec<Frame> = names.into_iter().map(|(number, name)| Frame::Name(number, name)).collect();
    let tick =
        |sums: &[_]| Frame::Tick(Tick { at_ns, launches, dropped, untimed, cost_ns, sums: sums.to_vec() });
    frames.extend(sums.chunks(MOST_SUMS).map(tick));
    if sums.is_empty() {
        frames.push(tick(&[]));
    }
    if last {
        frames.push(Frame::End);
    }
    send(&frames);
}

fn send(frames: &[Frame]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| encode(frame, &mut bytes));
    let mut socket = lock();
    let sent = socket.as_ref().is_some_and(|socket| send_all(socket, &bytes));
    if !sent {
        // A frame that was cut would make nonsense of all that follow.
        *socket = None;
    }
}

/// Writes without the signal that would end a program which does not expect it.
fn send_all(socket: &UnixStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: the bytes are readable for their length, and the descriptor is open as long as the stream lives.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(count @ 1..) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(_) if std::io::Error::last_os_error().kind() == ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
    true
}

fn lock() -> std::sync::MutexGuard<'static, Option<UnixStream>> {
    SOCKET.lock().unwrap_or_else(PoisonError::into_inner)
}
