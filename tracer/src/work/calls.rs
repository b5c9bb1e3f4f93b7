//! `calls:FUNCTION`: calls of machine code, whose numbers the recorder puts into memory that is passed here, and of Python functions, which processes
//! tell in datagrams.
//!
//! ```text
//!  0 12 4000000      a unit's number, how often this process called it since it told last, and how many nanoseconds ago the last time was
//!  2 7 0
//! ```
//!
//! What comes late is told with its own time, after later ones (`WorkSeries::put_in_order`). A unit of which there is neither a function nor a call
//! is missing. Whoever sends can be anything: what another user tells is passed over, and so is what makes no sense. Leaves out counting
//! (`probe/count`, `data/count_python_calls.py`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::WorkId;
use energy_trace_model::recording::record::{WorkCounter, WorkFailure, WorkReading, WorkSource, WorkUnits};
use energy_trace_system::clock::now;
use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a datagram that are read.
const MOST: usize = 4096;
/// What comes late between two looks has times of its own up to here.
const MOST_LATE: usize = 256;
/// A function that is not there for so long is said to be missing: one of Python is there when it is called.
const FIRST: Duration = Duration::from_secs(2);
const FIRST_OF_PYTHON: Duration = Duration::from_secs(10);

/// The numbers of all units.
pub(super) struct Calls {
    ids: Vec<WorkId>,
    native: Option<File>,
    told: Option<Arc<Mutex<Told>>>,
    /// The numbers of the last look.
    last: Vec<u64>,
    begun: Instant,
}

/// What processes of one user tell.
struct Told {
    socket: OwnedFd,
    user: u32,
    sums: Vec<u64>,
    /// When it was looked at them, and what was called before that and told since: unit, calls, when the last was.
    looked: KtimeNs,
    late: Vec<(usize, u64, KtimeNs)>,
    /// Whether anybody told anything.
    is_python: bool,
}

/// The counters that are calls.
pub(super) fn calls_of(counters: &[WorkCounter]) -> Vec<WorkId> {
    let calls = (0..).zip(counters).filter(|(_, counter)| matches!(counter.source, WorkSource::Calls(_)));
    calls.map(|(id, _)| WorkId::new(id)).collect()
}

impl Calls {
    /// These units: the memory with their numbers, and where this user's processes tell theirs.
    pub(super) fn new(ids: Vec<WorkId>, native: Option<OwnedFd>, told: Option<OwnedFd>, user: u32) -> Self {
        let last = vec![0; ids.len()];
        let told = told.map(|socket| {
            let told =
                Told { socket, user, sums: last.clone(), looked: now(), late: Vec::new(), is_python: false };
            Arc::new(Mutex::new(told))
        });
        told.iter().for_each(listen);
        Self { ids, native: native.map(File::from), told, last, begun: Instant::now() }
    }

    /// The numbers now; what was called before the last look is told with its own time first.
    pub(super) fn look(
        &mut self,
        mut tell: impl FnMut(WorkId, WorkReading),
    ) -> Vec<Result<WorkUnits, WorkFailure>> {
        let (told, late, is_python) = self.told.as_ref().map(|told| Told::look(told)).unwrap_or_default();
        for (unit, more, at) in late {
            let (Some(number), Some(id)) = (self.last.get_mut(unit), self.ids.get(unit)) else { continue };
            *number = number.saturating_add(more);
            tell(*id, WorkReading { at, within_ns: 0, value: Ok(WorkUnits::whole(*number)) });
        }
        let native = self.native_calls();
        for (unit, number) in self.last.iter_mut().enumerate() {
            let of = |numbers: &[u64]| numbers.get(unit).copied().unwrap_or(0);
            *number = of(&told).saturating_add(of(&native).saturating_sub(1));
        }
        let is_early = self.begun.elapsed() < if is_python { FIRST_OF_PYTHON } else { FIRST };
        let is_missing = |unit: usize, number: u64| {
            !is_early && number == 0 && native.get(unit).is_none_or(|number| *number == 0)
        };
        let number = |(unit, number): (usize, &u64)| match is_missing(unit, *number) {
            true => Err(WorkFailure::Missing),
            false => Ok(WorkUnits::whole(*number)),
        };
        self.last.iter().enumerate().map(number).collect()
    }

    /// Calls of machine code, and one more where there is such a function.
    fn native_calls(&self) -> Vec<u64> {
        let mut bytes = vec![0; 8 * self.ids.len()];
        let read = self.native.as_ref().map(|native| native.read_exact_at(&mut bytes, 0));
        let numbers = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        if matches!(read, Some(Ok(()))) { numbers.collect() } else { Vec::new() }
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
    /// The numbers now, and what comes late.
    fn look(told: &Mutex<Self>) -> (Vec<u64>, Vec<(usize, u64, KtimeNs)>, bool) {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.drain();
        told.looked = now();
        (told.sums.clone(), std::mem::take(&mut told.late), told.is_python)
    }

    fn drain(&mut self) {
        let mut bytes = [0; MOST];
        while let Some((from, length)) = self.next(&mut bytes) {
            let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(text) = text.filter(|_| from.is_some_and(|from| from.uid() == self.user)) {
                self.take(text, now());
            }
        }
    }

    /// The next datagram, and whose it is.
    fn next(&self, bytes: &mut [u8]) -> Option<(Option<UnixCredentials>, usize)> {
        let mut room = cmsg_space!(UnixCredentials);
        let mut slices = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut room), flags).ok()?;
        let is_whole = !got.flags.contains(MsgFlags::MSG_TRUNC);
        let whose = got.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(whose) => Some(whose),
            _ => None,
        });
        Some((whose.filter(|_| is_whole), got.bytes))
    }

    fn take(&mut self, text: &str, at: KtimeNs) {
        self.is_python = true;
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let unit = words.next()?.parse::<usize>().ok()?;
            let mut number = || words.next()?.parse::<u64>().ok();
            Some((unit, number()?, number()?))
        });
        for (unit, more, ago_ns) in lines {
            let Some(sum) = self.sums.get_mut(unit) else { continue };
            *sum = sum.saturating_add(more);
            let at = KtimeNs::from_ns(at.as_ns().saturating_sub(ago_ns));
            if at < self.looked && self.late.len() < MOST_LATE {
                self.late.push((unit, more, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, WorkFailure, WorkId, WorkUnits};
    use nix::sys::socket::{setsockopt, sockopt::PassCred};
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;
    use std::os::unix::net::UnixDatagram;

    /// What is told late, and what is found then.
    fn look(calls: &mut Calls) -> (Vec<(u32, f64)>, Vec<Option<f64>>) {
        let mut late = Vec::new();
        let of = |value: Result<WorkUnits, WorkFailure>| value.ok().map(WorkUnits::as_number);
        let found = calls.look(|id, reading| late.push((id.get(), of(reading.value).unwrap())));
        (late, found.into_iter().map(of).collect())
    }

    fn calls(count: u32, native: Option<&File>, user: u32) -> (UnixDatagram, Calls) {
        let (from, to) = UnixDatagram::pair().unwrap();
        setsockopt(&to, PassCred, &true).unwrap();
        let native = native.map(|native| native.try_clone().unwrap().into());
        (from, Calls::new((0..count).map(WorkId::new).collect(), native, Some(to.into()), user))
    }

    /// What the recorder counted and what processes tell is one number; neither nonsense nor what another user tells adds to it.
    #[test]
    fn both_kinds_of_calls() {
        let native: File = tempfile::tempfile().unwrap();
        let put = |number: u64| native.write_all_at(&[number.to_ne_bytes(), [0; 8]].concat(), 0).unwrap();
        put(4);
        let user = nix::unistd::geteuid().as_raw();
        let (from, mut both) = calls(2, Some(&native), user);
        assert_eq!(look(&mut both).1, [3.0, 0.0].map(Some));
        for text in
            ["0 5 0\n1 1 0\n", "0 2 0\n", "0 7\n", "9 9 0\n", "0 -1 0\n", "0 1 -1", "x", "\u{80}0 9 0"]
        {
            from.send(text.as_bytes()).unwrap();
        }
        from.send(&[b"0 1 0\n".as_slice(), &[b' '; 9000]].concat()).unwrap();
        assert_eq!(look(&mut both).1, [3.0 + 7.0, 1.0].map(Some));
        put(7);
        assert_eq!(look(&mut both).1[0], Some(13.0));
        let (from, mut others) = calls(1, None, user + 1);
        from.send(b"0 5 0\n").unwrap();
        assert_eq!(look(&mut others).1, [Some(0.0)]);
    }

    /// Calls before the last look come first, with their time, and are in the numbers then; a hostile process has few of them.
    #[test]
    fn calls_that_come_late() {
        let (from, mut calls) = calls(2, None, nix::unistd::geteuid().as_raw());
        from.send(b"0 3 0\n").unwrap();
        assert_eq!(look(&mut calls), (vec![], [3.0, 0.0].map(Some).to_vec()));
        from.send(b"0 2 60000000000\n1 1 18446744073709551615\n0 4 0\n").unwrap();
        assert_eq!(look(&mut calls), (vec![(0, 5.0), (1, 1.0)], [9.0, 1.0].map(Some).to_vec()));
        for _ in 0..200 {
            let told = calls.told.as_ref().unwrap();
            told.lock().unwrap().take("0 1 9000000000\n1 1 9000000000\n", super::now());
        }
        let (late, found) = look(&mut calls);
        assert_eq!((late.len(), found), (super::MOST_LATE, [209.0, 201.0].map(Some).to_vec()));
    }

    /// A function that nothing has and nobody calls is missing after a while; one that is there, and one that is called, are not.
    #[test]
    fn functions_that_are_missing() {
        let native: File = tempfile::tempfile().unwrap();
        native.write_all_at(&[0_u64, 1, 0].map(u64::to_ne_bytes).concat(), 0).unwrap();
        let (from, mut calls) = calls(3, Some(&native), nix::unistd::geteuid().as_raw());
        from.send(b"2 1 0\n").unwrap();
        assert_eq!(look(&mut calls).1, [0.0, 0.0, 1.0].map(Some));
        calls.begun -= super::FIRST;
        assert_eq!(look(&mut calls).1, [0.0, 0.0, 1.0].map(Some));
        calls.begun -= super::FIRST_OF_PYTHON;
        assert_eq!(look(&mut calls).1, [None, Some(0.0), Some(1.0)]);
        let mut without = Calls::new(vec![WorkId::new(0)], None, None, 0);
        assert_eq!(look(&mut without).1, [Some(0.0)]);
        without.begun -= super::FIRST;
        assert_eq!(look(&mut without).1, [None]);
    }
}
