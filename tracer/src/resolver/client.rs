//! The recorder's side: questions about open files, with a deadline, to a worker that is replaced when it is lost.
//!
//! A file that costs a worker its life or its time is named in the recording's warnings, once. A worker that was lost takes with it what it kept
//! (`Worker::generation`). Leaves out what can be asked (`ask.rs`).

use super::question::{Fault, Question};
use super::server::{self, Order};
use super::usage::{cpu_ns_of_all, waited_for_a_cpu};
use crate::roles::channel::{Channel, ChannelError};
use crate::roles::child::{Child, fork_role};
use energy_trace_model::ids;
use energy_trace_model::recording::record::ReadFailure;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of an answer at the most: the names of one library's frames, with what is inlined.
const LONGEST_ANSWER: usize = 256 << 20;
/// How long the server may take to fork a worker.
const TO_START: Duration = Duration::from_secs(10);
/// How long it may take to end.
const TO_END: Duration = Duration::from_secs(1);
/// Workers that one `Worker` may lose: after that its questions are not answered any more.
const MOST_LOST: u32 = 64;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The worker says what is wrong with the file.
    #[error("{text}")]
    Refused {
        /// In what way.
        text: String,
        /// It says to be far larger than it is.
        too_large: bool,
    },
    /// The worker was lost over it.
    #[error("the process that read it was lost ({0:?})")]
    Lost(ReadFailure),
    /// There are no workers any more.
    #[error("there is no process to read it: {0}")]
    Unavailable(String),
}

/// The resolver of a recording.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    failures: Mutex<BTreeMap<String, ReadFailure>>,
    lines: bool,
}

#[derive(Debug)]
struct Server {
    child: Option<Child>,
    next: u32,
}

impl Resolver {
    /// Forks the server. `lines`: debug information will be read, which takes more memory.
    ///
    /// Must be called while this process has one thread.
    ///
    /// # Errors
    /// When no process can be had, or it cannot give up its privileges.
    pub fn start(lines: bool) -> io::Result<Self> {
        let child = fork_role(c"et-resolver", |parent| server::run(&parent))?;
        let ready = child.channel.receive::<Result<(), String>>(4096, Some(TO_START));
        match ready.map_err(io::Error::other)? {
            (Ok(()), _) => {
                let server = Mutex::new(Server { child: Some(child), next: 0 });
                Ok(Self(Arc::new(Shared { server, failures: Mutex::default(), lines })))
            }
            (Err(why), _) => Err(io::Error::other(why)),
        }
    }

    /// Someone to ask; its process is started with the first question. `urgent`: what it reads may be gone soon.
    pub fn worker(&self, urgent: bool) -> Worker {
        Worker { resolver: self.clone(), urgent, longest: Duration::MAX, state: Mutex::default() }
    }

    /// The files that cost a worker, by the name under which they were requested, and what became of them.
    pub fn failures(&self) -> BTreeMap<String, ReadFailure> {
        lock(&self.0.failures).clone()
    }

    /// The process that forks the others, while it is there.
    pub fn pid(&self) -> Option<ids::Pid> {
        lock(&self.0.server).child.as_ref().map(Child::id)
    }

    /// CPU time of all its processes so far, in nanoseconds; those that have ended count to a hundredth of a second.
    pub fn cpu_ns(&self) -> u64 {
        lock(&self.0.server).child.as_ref().map_or(0, |child| cpu_ns_of_all(child.id()))
    }

    fn begin(&self, urgent: bool) -> Result<Process, String> {
        let mut server = lock(&self.0.server);
        let number = server.next;
        server.next += 1;
        let Some(child) = &server.child else { return Err("it has ended".into()) };
        let order = Order::Start { number, urgent, lines: self.0.lines };
        let answered = child
            .channel
            .send(&order, &[], Some(TO_START))
            .and_then(|()| child.channel.receive::<Result<i32, String>>(4096, Some(TO_START)));
        match answered {
            Ok((Ok(pid), files)) => {
                let end = files.into_iter().next().ok_or("it gave no channel")?;
                Ok(Process { number, pid, channel: Channel::over(end) })
            }
            Ok((Err(why), _)) => Err(why),
            Err(error) => {
                // What it says later would be taken for the answer to something else.
                if let Some(child) = server.child.take() {
                    child.end(TO_END);
                }
                Err(error.to_string())
            }
        }
    }

    fn end(&self, number: u32) {
        if let Some(child) = &lock(&self.0.server).child {
            // A server that is gone has taken its workers along.
            let _gone = child.channel.send(&Order::End { number }, &[], Some(TO_START));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let server = self.server.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = server.child.take() {
            child.end(TO_END);
        }
    }
}

/// One line of questions, each asked when the one before is answered.
pub struct Worker {
    resolver: Resolver,
    urgent: bool,
    /// No answer is waited for longer.
    longest: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    lost: u32,
}

/// How long an answer may take whose worker waited so long for a CPU.
fn longest(patience: Duration, delayed: Duration) -> Duration {
    patience + delayed.min(patience * (BUSY - 1))
}

/// A worker's process.
struct Process {
    number: u32,
    pid: i32,
    channel: Channel,
}

impl Process {
    /// Waits for its answer: so long, and as long again as it waits for a CPU meanwhile, up to `BUSY` times. A busy machine is no file's fault,
    /// and what is lost so is lost for the whole recording; whoever makes the machine busy can delay an answer, and not for ever.
    fn answer<T: DeserializeOwned>(&self, patience: Duration) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let (begin, waited) = (Instant::now(), waited_for_a_cpu(self.pid));
        let mut most = patience;
        while !self.channel.is_answering(most.saturating_sub(begin.elapsed()))? {
            let delayed = waited_for_a_cpu(self.pid).saturating_sub(waited);
            most = longest(patience, delayed);
            if begin.elapsed() >= most {
                return Err(ChannelError::TimedOut);
            }
        }
        self.channel.receive(LONGEST_ANSWER, Some(most.saturating_sub(begin.elapsed()).max(SHORTEST)))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("urgent", &self.urgent).finish_non_exhaustive()
    }
}

impl Worker {
    /// The same for a thread that cannot wait: of no answer is more than `SOON` expected.
    pub const fn hasty(mut self) -> Self {
        self.longest = SOON;
        self
    }

    /// Counts up with each process that is lost: what it kept is gone.
    pub fn generation(&self) -> u32 {
        lock(&self.state).lost
    }

    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        label: &str,
        question: &Question,
        files: &[&File],
        patience: Duration,
    ) -> Result<T, ResolveError> {
        self.ask_for_files(label, question, files, patience).map(|(answer, _)| answer)
    }

    pub(super) fn ask_for_files<T: DeserializeOwned>(
        &self,
        label: &str,
        question: &Question,
        files: &[&File],
        patience: Duration,
    ) -> Result<(T, Vec<OwnedFd>), ResolveError> {
        let mut state = lock(&self.state);
        if state.process.is_none() {
            if state.lost > MOST_LOST {
                return Err(ResolveError::Unavailable("too many were lost over files".into()));
            }
            state.process = Some(self.resolver.begin(self.urgent).map_err(ResolveError::Unavailable)?);
        }
        let Some(process) = &state.process else {
            return Err(ResolveError::Unavailable("it has ended".into()));
        };
        // Whoever makes it wait has less of its time the next time.
        let patience = (patience / (1 << state.lost.min(6))).max(SHORTEST).min(self.longest);
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
        let sent = process.channel.send(question, &files, Some(patience));
        let answer = sent.and_then(|()| process.answer::<Result<T, Fault>>(patience));
        match answer {
            Ok((Ok(answer), files)) => Ok((answer, files)),
            Ok((Err(fault), _)) => {
                if fault.too_large {
                    self.note(label, ReadFailure::TooLarge);
                }
                Err(ResolveError::Refused { text: fault.text, too_large: fault.too_large })
            }
            Err(error) => {
                self.resolver.end(process.number);
                state.process = None;
                state.lost += 1;
                let failure = failure_of(&error);
                log::debug!("{label}: {error}");
                self.note(label, failure);
                Err(ResolveError::Lost(failure))
            }
        }
    }

    /// Has a file named in the warnings.
    pub fn note(&self, label: &str, failure: ReadFailure) {
        lock(&self.resolver.0.failures).insert(label.to_owned(), failure);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Process { number, channel, .. }) = state.process.take() {
            drop(channel);
            self.resolver.end(number);
        }
    }
}

/// How many times as long an answer may take where its worker waits for a CPU.
const BUSY: u32 = 4;
/// What the thread that empties the ring buffers waits for an answer.
const SOON: Duration = Duration::from_millis(50);
/// What is waited for in any case.
const SHORTEST: Duration = Duration::from_secs(1);

const fn failure_of(error: &ChannelError) -> ReadFailure {
    match error {
        ChannelError::TimedOut => ReadFailure::TookTooLong,
        ChannelError::Closed | ChannelError::Io(_) => ReadFailure::Died,
        ChannelError::Malformed(_) => ReadFailure::Nonsense,
    }
}

/// What a panic on another thread left behind is whole: every change is one call.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{ReadFailure, ResolveError, Resolver, Worker, longest};
    use crate::resolver::question::Question;
    use crate::symbolize::Detail;
    use std::fs::File;
    use std::time::Duration;

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

    /// The process of a test has a thread beside the one that forks; it waits and holds no lock.
    fn worker() -> (Resolver, Worker) {
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        (resolver, worker)
    }

    /// Facts, rows, rules and names of a library are those that the parsers give here, and come from a process without rights.
    #[test]
    fn answers_are_the_parsers() {
        let (resolver, worker) = worker();
        let file = File::open(LIBC).unwrap();
        let facts = worker.facts(LIBC, &file, &["qsort"]).unwrap();
        let here = energy_trace_unwind::elf::ElfFacts::read(&file, &["qsort"]).unwrap();
        assert_eq!((facts.base, facts.symbol("qsort")), (here.base, here.symbol("qsort")));
        let rows = worker.rows(LIBC, &file, facts.base, 0).unwrap();
        let rows_here = energy_trace_unwind::cfi::read_rows(&file, facts.base).unwrap();
        assert!(rows.rows == rows_here.rows && rows.full == rows_here.full);
        let qsort = facts.symbol("qsort").unwrap();
        worker.keep(LIBC, &file, 7).unwrap();
        let mut unwinds = energy_trace_unwind::fde::UnwindFile::open(file.try_clone().unwrap()).unwrap();
        assert_eq!(worker.rule(LIBC, 7, qsort).unwrap().0, unwinds.rule(qsort).0.0);
        let place = facts.file_offset(qsort).unwrap();
        let names = worker.names(LIBC, &file, &[], &[place + 1], Detail::default()).unwrap();
        assert!(names[0].name.as_ref().unwrap().name.starts_with("qsort"));
        assert!(matches!(worker.rule(LIBC, 8, 0), Err(ResolveError::Refused { .. })));
        assert_eq!(resolver.failures().len(), 0);
    }

    /// A worker is nobody, has no capabilities, a filter on its system calls, and no files but the channel and nothing's.
    #[test]
    fn what_a_worker_may_do() {
        let (resolver, worker) = worker();
        worker.facts(LIBC, &File::open(LIBC).unwrap(), &[]).unwrap();
        // With the next question the files of the last one are closed.
        assert!(worker.rule(LIBC, 1, 0).is_err());
        let server = resolver.0.server.lock().unwrap().child.as_ref().unwrap().pid();
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        let pid = children.split_whitespace().next().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let has = |line: &str| assert!(status.lines().any(|found| found == line), "{line} in {status}");
        has("Name:\tet-resolver");
        has("NoNewPrivs:\t1");
        has("Seccomp:\t2");
        has("Uid:\t65534\t65534\t65534\t65534");
        has("Gid:\t65534\t65534\t65534\t65534");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            has(&format!("{set}:\t0000000000000000"));
        }
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut leads: Vec<_> = files.map(|file| std::fs::read_link(file.unwrap().path()).unwrap()).collect();
        leads.sort();
        assert_eq!(leads.len(), 4, "{leads:?}");
        assert!(leads[..3].iter().all(|link| link == std::path::Path::new("/dev/null")), "{leads:?}");
    }

    /// A worker that ends, here by too long a wait and then by a kill, costs the one answer: the file is named, and the next has a new one.
    #[test]
    fn workers_are_replaced() {
        let (resolver, worker) = worker();
        let file = File::open(LIBC).unwrap();
        worker.keep(LIBC, &file, 1).unwrap();
        let number = worker.state.lock().unwrap().process.as_ref().unwrap().number;
        resolver.end(number);
        // The end is the server's next work; the answer to a new worker comes behind it.
        let _other = resolver.begin(false).unwrap();
        assert!(matches!(worker.rule("hostile", 1, 0), Err(ResolveError::Lost(ReadFailure::Died))));
        assert_eq!(worker.generation(), 1);
        assert!(worker.facts(LIBC, &file, &[]).is_ok());
        let failures: Vec<_> = resolver.failures().into_iter().collect();
        assert_eq!(failures, [("hostile".to_owned(), ReadFailure::Died)]);
    }

    /// What a worker waits for a CPU is not counted against a file, up to a limit.
    #[test]
    fn a_busy_machine() {
        let second = Duration::from_secs(1);
        let waits = [Duration::ZERO, 2 * second, 3600 * second].map(|delayed| longest(second, delayed));
        assert_eq!(waits, [second, 3 * second, 4 * second]);
    }

    /// A worker that does not go on, and not for want of a CPU, is given up after the time that the question is worth.
    #[test]
    fn a_worker_that_hangs() {
        let (_resolver, worker) = worker();
        let file = File::open(LIBC).unwrap();
        worker.keep(LIBC, &file, 1).unwrap();
        let pid = worker.state.lock().unwrap().process.as_ref().unwrap().pid;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
        let lost =
            worker.ask::<()>("hangs", &Question::Rule { number: 1, svma: 0 }, &[], Duration::from_secs(1));
        assert!(matches!(lost, Err(ResolveError::Lost(ReadFailure::TookTooLong))), "{lost:?}");
    }

    /// A file that is 8 GiB of hole costs an error and no memory; one with no ELF header the same.
    #[test]
    fn holes() {
        let (resolver, worker) = worker();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 30).unwrap();
        assert!(matches!(worker.facts("hole", &file, &[]), Err(ResolveError::Refused { .. })));
        assert!(worker.names("hole", &file, &[], &[1], Detail::default()).is_ok());
        assert!(worker.perf_map("hole", &file, &[1]).unwrap().is_empty());
        assert_eq!(resolver.failures().len(), 0);
    }

    /// What workers burn counts.
    #[test]
    fn cpu_time_of_workers() {
        let (resolver, worker) = worker();
        worker.rows(LIBC, &File::open(LIBC).unwrap(), 0, 0).unwrap();
        assert!(resolver.cpu_ns() > 1_000_000, "{}", resolver.cpu_ns());
    }

    /// A server that its user has stopped, as anybody may who is nobody too, keeps nobody from ending.
    #[test]
    fn a_server_that_is_stopped() {
        let (resolver, worker) = worker();
        let server = resolver.0.server.lock().unwrap().child.as_ref().unwrap().pid();
        nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGSTOP).unwrap();
        drop((worker, resolver));
        assert!(nix::sys::signal::kill(server, None).is_err());
    }

    /// Without its server a recording goes on without answers.
    #[test]
    fn a_server_that_is_gone() {
        let (resolver, worker) = worker();
        let server = resolver.0.server.lock().unwrap().child.as_ref().unwrap().pid();
        nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGKILL).unwrap();
        let answer = worker.ask::<u32>("x", &Question::NameFacts, &[], Duration::from_secs(5));
        assert!(matches!(answer, Err(ResolveError::Unavailable(_))), "{answer:?}");
    }
}
