//! Which connections the socket of injected libraries accepts: processes that are recorded, each known by the number that the kernel gives for it.
//!
//! The socket is open to everybody, because a command runs as its user and below roots of its own. So whoever connects waits until the collector
//! knows the process, and is rejected if it does not come to. How many may wait, and how many may be open, is limited. Leaves out what is sent
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
const MOST_UNVERIFIED: usize = 16;
/// So long a process may be on its way to the collector.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two checks whether it came.
const POLL: Duration = Duration::from_millis(5);

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

/// A connection that was admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    /// Its process was not known yet.
    is_unverified: bool,
}

#[derive(Debug, Default)]
struct State {
    known: HashSet<Pid>,
    /// Processes that wait, and how many connections of each user do.
    waiting: HashSet<Pid>,
    unverified: HashMap<u32, usize>,
    open: usize,
}

/// All who admit.
#[derive(Debug, Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    refused: AtomicU64,
}

impl Connections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody connects: admitted, and to be closed with `leave`, or there is no room.
    pub(super) fn admit(&self, peer: Peer) -> Option<Connection> {
        let state = &mut *self.state();
        let is_unverified = !state.known.contains(&peer.pid);
        let unverified = state.unverified.entry(peer.user).or_default();
        if state.open >= MOST_OPEN || is_unverified && *unverified >= MOST_UNVERIFIED {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        state.open += 1;
        if is_unverified {
            *unverified += 1;
            state.waiting.insert(peer.pid);
        }
        Some(Connection { peer, is_unverified })
    }

    /// Waits until his process is known; false where it does not come to be so, or `stop` says that nobody listens any more.
    pub(super) fn is_verified_in_time(&self, connection: Connection, stop: impl Fn() -> bool) -> bool {
        if !connection.is_unverified {
            return true;
        }
        let pid = connection.peer.pid;
        let until = Instant::now() + PATIENCE;
        while !self.state().known.contains(&pid) && !stop() && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        let state = &mut *self.state();
        let known = state.known.contains(&pid);
        if let Some(unverified) = state.unverified.get_mut(&connection.peer.user) {
            *unverified = unverified.saturating_sub(1);
        }
        if !known {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        known
    }

    /// A connection is over.
    pub(super) fn leave(&self) {
        let state = &mut *self.state();
        state.open = state.open.saturating_sub(1);
    }

    /// Verifies those whose processes the collector knows.
    pub(super) fn verify(&self, is_known: impl Fn(Pid) -> bool) {
        let state = &mut *self.state();
        let known: Vec<Pid> = state.waiting.iter().copied().filter(|&pid| is_known(pid)).collect();
        for pid in known {
            state.waiting.remove(&pid);
            state.known.insert(pid);
        }
        // Who is rejected need not be asked about any more.
        if state.unverified.values().all(|&count| count == 0) {
            state.waiting.clear();
        }
    }

    /// A process is gone; its number may come back as another's.
    pub(super) fn forget(&self, pid: Pid) {
        self.state().known.remove(&pid);
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.state().open
    }

    /// How often somebody was rejected.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, MOST_OPEN, MOST_UNVERIFIED, Peer};
    use energy_trace_model::ids::Pid;

    fn peer(pid: u32, user: u32) -> Peer {
        Peer { pid: Pid::new(pid), user }
    }

    /// A process that is recorded comes in once the collector knows of it, and again without waiting; after it is gone its number is a
    /// unverified's.
    #[test]
    fn who_is_known() {
        let connections = Connections::default();
        let first = connections.admit(peer(7, 1)).unwrap();
        connections.verify(|pid| pid.get() == 7);
        assert!(connections.is_verified_in_time(first, || false));
        let again = connections.admit(peer(7, 1)).unwrap();
        assert!(!again.is_unverified && connections.is_verified_in_time(again, || true));
        connections.forget(Pid::new(7));
        let other = connections.admit(peer(7, 1)).unwrap();
        connections.verify(|_| false);
        assert!(!connections.is_verified_in_time(other, || true));
        assert_eq!((connections.refused(), connections.open()), (1, 3));
    }

    /// Unverified connections of one user take few places, none of another's, and there is an end to all places.
    #[test]
    fn places_are_few() {
        let connections = Connections::default();
        let come_in = |user: u32| (0..1000).filter_map(|pid| connections.admit(peer(1 + pid, user))).count();
        assert_eq!(come_in(1), MOST_UNVERIFIED);
        assert_eq!((2..100).map(come_in).sum::<usize>() + MOST_UNVERIFIED, MOST_OPEN);
        connections.leave();
        assert!(connections.admit(peer(1, 1000)).is_some() && connections.admit(peer(1, 1000)).is_none());
    }
}
