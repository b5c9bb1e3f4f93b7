//! `calls:FUNCTION`: calls of machine code, whose numbers the recorder puts into memory that is passed here, and of Python functions, which processes
//! tell in datagrams.
//!
//! ```text
//!  0 1200      a unit's number, and how often this process called it so far
//!  2 7
//! ```
//!
//! Whoever may send one can be anything: those of another user are passed over, and so is what makes no sense. Leaves out counting
//! (`probe/count`, `data/count_python_calls.py`).

use energy_trace_model::ids::WorkId;
use energy_trace_model::recording::record::{WorkCounter, WorkFailure, WorkSource, WorkUnits};
use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a datagram that are read.
const MOST: usize = 4096;
/// Numbers of processes that are kept.
const MOST_TOLD: usize = 1 << 16;

/// The numbers of all units.
pub(super) struct Calls {
    count: usize,
    native: Option<File>,
    told: Option<Arc<Mutex<Told>>>,
}

/// What processes of one user tell.
struct Told {
    socket: OwnedFd,
    user: u32,
    /// The last number of each process and unit.
    last: HashMap<(i32, usize), u64>,
    sums: Vec<u64>,
}

/// The counters that are calls.
pub(super) fn calls_of(counters: &[WorkCounter]) -> Vec<WorkId> {
    let calls = (0..).zip(counters).filter(|(_, counter)| matches!(counter.source, WorkSource::Calls(_)));
    calls.map(|(id, _)| WorkId::new(id)).collect()
}

impl Calls {
    /// So many units: the memory with their numbers, and where this user's processes tell theirs.
    pub(super) fn new(count: usize, native: Option<OwnedFd>, told: Option<OwnedFd>, user: u32) -> Self {
        let told = told.map(|socket| {
            let told = Told { socket, user, last: HashMap::new(), sums: vec![0; count] };
            Arc::new(Mutex::new(told))
        });
        told.iter().for_each(listen);
        Self { count, native: native.map(File::from), told }
    }

    /// The numbers now.
    pub(super) fn look(&self) -> Vec<Result<WorkUnits, WorkFailure>> {
        let mut numbers = vec![0; self.count];
        if let Some(told) = &self.told {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.drain();
            numbers.clone_from(&told.sums);
        }
        let mut bytes = vec![0; 8 * self.count];
        if self.native.as_ref().is_some_and(|native| native.read_exact_at(&mut bytes, 0).is_ok()) {
            let native = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
            numbers
                .iter_mut()
                .zip(native)
                .for_each(|(number, native)| *number = number.saturating_add(native));
        }
        numbers.into_iter().map(|number| Ok(WorkUnits::whole(number))).collect()
    }
}

/// Takes in what is told as it comes: few datagrams wait in a socket, and none is waited for by who sends it.
fn listen(told: &Arc<Mutex<Told>>) {
    let told = Arc::clone(told);
    let socket = told.lock().unwrap_or_else(PoisonError::into_inner).socket.try_clone();
    let Ok(socket) = socket else { return };
    // Without a thread looks alone take in what is told.
    let _ = std::thread::Builder::new().name("calls".into()).spawn(move || {
        while poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).is_ok() {
            told.lock().unwrap_or_else(PoisonError::into_inner).drain();
        }
    });
}

impl Told {
    fn drain(&mut self) {
        let mut bytes = [0; MOST];
        while let Some((from, length)) = self.next(&mut bytes) {
            let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
            let who = from.filter(|from| from.uid() == self.user);
            if let (Some(from), Some(text)) = (who, text) {
                self.take(from.pid(), text);
            }
        }
    }

    /// The next datagram, and whose it is.
    fn next(&self, bytes: &mut [u8]) -> Option<(Option<UnixCredentials>, usize)> {
        let mut room = cmsg_space!(UnixCredentials);
        let mut slices = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut room), flags).ok()?;
        let whose = got.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(whose) => Some(whose),
            _ => None,
        });
        Some((whose, got.bytes))
    }

    fn take(&mut self, process: i32, text: &str) {
        let numbers = text.lines().filter_map(|line| {
            let (unit, number) = line.split_once(' ')?;
            Some((unit.parse::<usize>().ok()?, number.parse::<u64>().ok()?))
        });
        for (unit, number) in numbers {
            let is_full = self.last.len() >= MOST_TOLD && !self.last.contains_key(&(process, unit));
            let Some(sum) = self.sums.get_mut(unit).filter(|_| !is_full) else { continue };
            let before = self.last.insert((process, unit), number).unwrap_or(0);
            // Another program of the same process begins anew.
            *sum = sum.saturating_add(if number < before { number } else { number - before });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, WorkUnits};
    use nix::sys::socket::{setsockopt, sockopt::PassCred};
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;
    use std::os::unix::net::UnixDatagram;

    fn numbers(calls: &Calls) -> Vec<f64> {
        calls.look().into_iter().map(|number| number.map(WorkUnits::as_number).unwrap()).collect()
    }

    /// What the recorder counted and what processes tell is one number; a process that begins anew adds to it, and neither nonsense nor what another
    /// user tells does.
    #[test]
    fn both_kinds_of_calls() {
        let native: File = tempfile::tempfile().unwrap();
        native.write_all_at(&[3_u64.to_ne_bytes(), 0_u64.to_ne_bytes()].concat(), 0).unwrap();
        let (from, to) = UnixDatagram::pair().unwrap();
        setsockopt(&to, PassCred, &true).unwrap();
        let user = nix::unistd::geteuid().as_raw();
        let calls = Calls::new(2, Some(native.try_clone().unwrap().into()), Some(to.into()), user);
        assert_eq!(numbers(&calls), [3.0, 0.0]);
        for text in ["0 5\n1 1\n", "0 7\n", "0 2\n1 1\n", "9 9\n", "0 -1\n", "x", "\u{80}0 9"] {
            from.send(text.as_bytes()).unwrap();
        }
        from.send(&[0xff; 9000]).unwrap();
        assert_eq!(numbers(&calls), [3.0 + 7.0 + 2.0, 1.0]);
        native.write_all_at(&6_u64.to_ne_bytes(), 0).unwrap();
        assert_eq!(numbers(&calls)[0], 15.0);
        let (from, to) = UnixDatagram::pair().unwrap();
        setsockopt(&to, PassCred, &true).unwrap();
        let calls = Calls::new(1, None, Some(to.into()), user + 1);
        from.send(b"0 5\n").unwrap();
        assert_eq!(numbers(&calls), [0.0]);
    }
}
