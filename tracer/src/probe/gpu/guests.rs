//! Who may speak to the socket of injected libraries: processes that are recorded, each known by the number that the kernel gives for it.
//!
//! The socket is open to everybody, because a command runs as its user and below roots of its own. So whoever connects waits until the collector
//! has met his process, and is turned away if it does not. How many may wait, and how many may speak, is limited. Leaves out what is said
//! (`listener.rs`).

use energy_trace_model::ids::Pid;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections at one time.
const MOST_OPEN: usize = 256;
/// Connections of one user at one time whose processes are not known.
const MOST_STRANGERS: usize = 16;
/// So long a process may be on its way to the collector.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks at whether it came.
const LOOK: Duration = Duration::from_millis(5);

/// Who is at the other end, in our numbers (SO_PEERCRED, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) pid: Pid,
    user: u32,
}

impl Peer {
    /// Of a connection; `None` where the kernel does not say, or has no number for it here.
    pub(super) fn of(stream: &UnixStream) -> Option<Self> {
        let peer = getsockopt(stream, PeerCredentials).ok()?;
        let pid = u32::try_from(peer.pid()).ok().filter(|&pid| pid != 0)?;
        Some(Self { pid: Pid::new(pid), user: peer.uid() })
    }
}

/// Somebody who has come in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) peer: Peer,
    stranger: bool,
}

#[derive(Debug, Default)]
struct Book {
    known: HashSet<Pid>,
    /// Processes that wait, and how many connections of each user do.
    waiting: HashSet<Pid>,
    strangers: HashMap<u32, usize>,
    open: usize,
}

/// All who knock.
#[derive(Debug, Default)]
pub(super) struct Guests {
    book: Mutex<Book>,
    refused: AtomicU64,
}

impl Guests {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody knocks: he may come in and has to leave once, or there is no room for him.
    pub(super) fn knock(&self, peer: Peer) -> Option<Guest> {
        let book = &mut *self.book();
        let stranger = !book.known.contains(&peer.pid);
        let strangers = book.strangers.entry(peer.user).or_default();
        if book.open >= MOST_OPEN || stranger && *strangers >= MOST_STRANGERS {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        book.open += 1;
        if stranger {
            *strangers += 1;
            book.waiting.insert(peer.pid);
        }
        Some(Guest { peer, stranger })
    }

    /// Waits until his process is known; false where it does not come to be so, or `stop` says that nobody listens any more.
    pub(super) fn is_introduced(&self, guest: Guest, stop: impl Fn() -> bool) -> bool {
        if !guest.stranger {
            return true;
        }
        let pid = guest.peer.pid;
        let until = Instant::now() + PATIENCE;
        while !self.book().known.contains(&pid) && !stop() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let book = &mut *self.book();
        let known = book.known.contains(&pid);
        if let Some(strangers) = book.strangers.get_mut(&guest.peer.user) {
            *strangers = strangers.saturating_sub(1);
        }
        if !known {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        known
    }

    /// A connection is over.
    pub(super) fn leave(&self) {
        let book = &mut *self.book();
        book.open = book.open.saturating_sub(1);
    }

    /// Lets in those of whom the collector knows.
    pub(super) fn introduce(&self, is_known: impl Fn(Pid) -> bool) {
        let book = &mut *self.book();
        let known: Vec<Pid> = book.waiting.iter().copied().filter(|&pid| is_known(pid)).collect();
        for pid in known {
            book.waiting.remove(&pid);
            book.known.insert(pid);
        }
        // Who is turned away need not be asked about any more.
        if book.strangers.values().all(|&count| count == 0) {
            book.waiting.clear();
        }
    }

    /// A process is gone; its number may come back as another's.
    pub(super) fn forget(&self, pid: Pid) {
        self.book().known.remove(&pid);
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.book().open
    }

    /// How often somebody was turned away.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Guests, MOST_OPEN, MOST_STRANGERS, Peer};
    use energy_trace_model::ids::Pid;

    fn peer(pid: u32, user: u32) -> Peer {
        Peer { pid: Pid::new(pid), user }
    }

    /// A process that is recorded comes in once the collector knows of it, and again without waiting; after it is gone its number is a
    /// stranger's.
    #[test]
    fn who_is_known() {
        let guests = Guests::default();
        let first = guests.knock(peer(7, 1)).unwrap();
        guests.introduce(|pid| pid.get() == 7);
        assert!(guests.is_introduced(first, || false));
        let again = guests.knock(peer(7, 1)).unwrap();
        assert!(!again.stranger && guests.is_introduced(again, || true));
        guests.forget(Pid::new(7));
        let other = guests.knock(peer(7, 1)).unwrap();
        guests.introduce(|_| false);
        assert!(!guests.is_introduced(other, || true));
        assert_eq!((guests.refused(), guests.open()), (1, 3));
    }

    /// Strangers of one user take few places, none of another's, and there is an end to all places.
    #[test]
    fn places_are_few() {
        let guests = Guests::default();
        let come_in = |user: u32| (0..1000).filter_map(|pid| guests.knock(peer(1 + pid, user))).count();
        assert_eq!(come_in(1), MOST_STRANGERS);
        assert_eq!((2..100).map(come_in).sum::<usize>() + MOST_STRANGERS, MOST_OPEN);
        guests.leave();
        assert!(guests.knock(peer(1, 1000)).is_some() && guests.knock(peer(1, 1000)).is_none());
    }
}
