//! Questions about open files, each with a deadline, to workers that are replaced when they are lost.
//!
//! A worker that has seen a file of one user is never asked about a file of another: what it was made to do by one would reach the others. Files
//! of root's, which no user could write, have a worker of their own. A file that costs a worker its life or its time is named in the recording's
//! warnings, once. Leaves out what can be asked (`ask.rs`) and what files have cost (`losses.rs`).

use super::client::{ResolveError, Resolver, lock};
use super::losses::SHORTEST;
use super::question::{Fault, Question};
use super::usage::waited_for_a_cpu;
use crate::files::owner_of_files;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{Owner, ReadFailure};
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_system::roles::room::with_room;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Processes of one `Worker` beside that for root's files; those of owners who were not asked about for the longest time end for others.
const MOST_PROCESSES: usize = 4;
/// How many times as long an answer may take where its worker waits for a CPU.
const BUSY: u32 = 4;

/// What the thread that takes events in waits for an answer.
const SOON: Duration = Duration::from_millis(50);

/// One line of questions, each asked when the one before is answered.
pub struct Worker {
    resolver: Resolver,
    urgent: bool,
    /// No answer is waited for longer.
    longest: Duration,
    state: Mutex<State>,
    /// Processes that have ended.
    ended: Arc<AtomicU32>,
}

#[derive(Default)]
struct State {
    processes: BTreeMap<Owner, Process>,
    /// Owners in the order in which they were asked about last.
    last_asked: Vec<Owner>,
    /// Whose the files are that are kept, by their numbers.
    keepers: HashMap<u32, Owner>,
    /// See `Worker::ended`.
    ended: Arc<AtomicU32>,
}

/// A worker's process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u32,
    pub(super) pid: i32,
    /// Whose child it is.
    pub(super) server: Pid,
    pub(super) channel: Channel,
}

/// Who asks what, and what the answer is worth.
struct Inquiry<'a> {
    label: &'a str,
    owner: Owner,
    question: &'a Question,
    files: &'a [&'a File],
    worth: Duration,
}

/// What a worker gave, with its files.
type WorkerReply<T> = (Result<T, Fault>, Vec<OwnedFd>);

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("urgent", &self.urgent).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(resolver: Resolver, urgent: bool) -> Self {
        let state = State::default();
        let ended = Arc::clone(&state.ended);
        Self { resolver, urgent, longest: Duration::MAX, state: Mutex::new(state), ended }
    }

    /// The same for a thread that cannot wait: of no answer is more than `SOON` expected.
    pub const fn hasty(mut self) -> Self {
        self.longest = SOON;
        self
    }

    /// Counts up with each process that has ended: what it kept is gone. Waits for no answer.
    pub fn generation(&self) -> u32 {
        self.ended.load(Ordering::Relaxed)
    }

    /// How long files of this owner have kept workers busy.
    pub fn spent(&self, owner: Owner) -> Duration {
        self.resolver.spent(owner)
    }

    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        label: &str,
        question: &Question,
        files: &[&File],
        worth: Duration,
    ) -> Result<T, ResolveError> {
        self.ask_for_files(label, question, files, worth).map(|(answer, _)| answer)
    }

    pub(super) fn ask_for_files<T: DeserializeOwned>(
        &self,
        label: &str,
        question: &Question,
        files: &[&File],
        worth: Duration,
    ) -> Result<(T, Vec<OwnedFd>), ResolveError> {
        let owner = match question {
            Question::Rule { number, .. } => {
                lock(&self.state).keepers.get(number).copied().unwrap_or(Owner::Several)
            }
            _ => owner_of_files(files),
        };
        self.ask_of(&Inquiry { label, owner, question, files, worth })
    }

    /// The same of files that are this owner's, whoever made them.
    pub(super) fn ask_of_owner<T: DeserializeOwned>(
        &self,
        label: &str,
        owner: Owner,
        question: &Question,
        files: &[&File],
        worth: Duration,
    ) -> Result<T, ResolveError> {
        self.ask_of(&Inquiry { label, owner, question, files, worth }).map(|(answer, _)| answer)
    }

    fn ask_of<T: DeserializeOwned>(&self, inquiry: &Inquiry<'_>) -> Result<(T, Vec<OwnedFd>), ResolveError> {
        let mut state = lock(&self.state);
        let patience = self.resolver.losses().patience(inquiry.owner, inquiry.worth);
        let Some(patience) = patience else {
            return Err(ResolveError::Unavailable("other files of the same owner cost too much".into()));
        };
        let patience = patience.min(self.longest);
        let (given, files) = self.answer_of(&mut state, inquiry, patience)?;
        match given {
            Ok(answer) => {
                match inquiry.question {
                    Question::Keep { number } => _ = state.keepers.insert(*number, inquiry.owner),
                    Question::Forget { numbers } => state.keepers.retain(|kept, _| !numbers.contains(kept)),
                    _ => (),
                }
                Ok((answer, files))
            }
            Err(fault) => {
                if fault.too_large {
                    self.note_of(inquiry.owner, inquiry.label, ReadFailure::TooLarge);
                }
                Err(ResolveError::Refused { text: fault.text, too_large: fault.too_large })
            }
        }
    }

    /// What a worker gives for an answer. Where it is lost with its server the file has no part in it, and another one is asked.
    fn answer_of<T: DeserializeOwned>(
        &self,
        state: &mut State,
        inquiry: &Inquiry<'_>,
        patience: Duration,
    ) -> Result<WorkerReply<T>, ResolveError> {
        loop {
            let process = state.process(&self.resolver, inquiry.owner, self.urgent)?;
            let begun = Instant::now();
            let answer = process.ask(inquiry, patience);
            let took = begun.elapsed();
            self.resolver.losses().spend(inquiry.owner, took);
            let error = match answer {
                Ok(given) => return Ok(given),
                Err(error) => error,
            };
            log::debug!("{}: {error}", inquiry.label);
            if !state.end(&self.resolver, inquiry.owner) && matches!(error, ChannelError::Closed) {
                continue;
            }
            let failure = failure_of(&error);
            self.resolver.losses().lose(inquiry.owner, took);
            self.note_of(inquiry.owner, inquiry.label, failure);
            return Err(ResolveError::Lost(failure));
        }
    }

    /// Has a file named in the warnings.
    pub fn note(&self, label: &str, file: &File, failure: ReadFailure) {
        self.note_of(owner_of_files(&[file]), label, failure);
    }

    fn note_of(&self, owner: Owner, label: &str, failure: ReadFailure) {
        self.resolver.losses().note(owner, label, failure);
    }
}

impl State {
    /// The process for files of this owner, which begins with its first question.
    fn process(&mut self, of: &Resolver, owner: Owner, urgent: bool) -> Result<&Process, ResolveError> {
        self.last_asked.retain(|asked| *asked != owner);
        self.last_asked.push(owner);
        if !self.processes.contains_key(&owner) {
            self.make_room(of, owner);
            let begun = of.begin(urgent).map_err(ResolveError::Unavailable)?;
            self.processes.insert(owner, begun);
        }
        self.processes.get(&owner).ok_or_else(|| ResolveError::Unavailable("it has ended".into()))
    }

    fn make_room(&mut self, of: &Resolver, new: Owner) {
        let users = |owner: &&Owner| **owner != Owner::Root;
        if !users(&&new) || self.processes.keys().filter(users).count() < MOST_PROCESSES {
            return;
        }
        let idle = self.last_asked.iter().filter(users).find(|owner| self.processes.contains_key(*owner));
        if let Some(idle) = idle.copied() {
            self.end(of, idle);
        }
    }

    /// Ends an owner's process. Whether its server is still there.
    fn end(&mut self, of: &Resolver, owner: Owner) -> bool {
        self.last_asked.retain(|asked| *asked != owner);
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.processes.remove(&owner).is_none_or(|process| of.end_worker(&process))
    }
}

impl Process {
    fn ask<T: DeserializeOwned>(
        &self,
        inquiry: &Inquiry<'_>,
        patience: Duration,
    ) -> Result<WorkerReply<T>, ChannelError> {
        let files: Vec<BorrowedFd<'_>> = inquiry.files.iter().map(|file| file.as_fd()).collect();
        self.channel.send(inquiry.question, &files, Some(patience))?;
        let most = self.wait(patience)?;
        let (bytes, elements) = inquiry.question.longest_answer();
        with_room(elements, || self.channel.receive(bytes, Some(most)))
    }

    /// Waits until it answers, and says how long the whole answer may take: so long, and as long again as it waits for a CPU meanwhile, up to
    /// `BUSY` times. A busy machine is no file's fault, and what is lost so is lost for the whole recording; whoever makes the machine busy can
    /// delay an answer, and not for ever.
    fn wait(&self, patience: Duration) -> Result<Duration, ChannelError> {
        let (begin, waited) = (Instant::now(), waited_for_a_cpu(self.pid));
        let mut most = patience;
        while !self.channel.is_answering(most.saturating_sub(begin.elapsed()))? {
            let delayed = waited_for_a_cpu(self.pid).saturating_sub(waited);
            most = longest(patience, delayed);
            if begin.elapsed() >= most {
                return Err(ChannelError::TimedOut);
            }
        }
        Ok(most.saturating_sub(begin.elapsed()).max(SHORTEST))
    }
}

/// How long an answer may take whose worker waited so long for a CPU.
fn longest(patience: Duration, delayed: Duration) -> Duration {
    patience + delayed.min(patience * (BUSY - 1))
}

impl Drop for Worker {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner));
        for process in state.processes.into_values() {
            self.resolver.end_worker(&process);
        }
    }
}

const fn failure_of(error: &ChannelError) -> ReadFailure {
    match error {
        ChannelError::TimedOut => ReadFailure::TookTooLong,
        ChannelError::Closed | ChannelError::Io(_) => ReadFailure::Died,
        ChannelError::Malformed(_) => ReadFailure::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Channel, ChannelError, Fault, Inquiry, MOST_PROCESSES, Owner, Pid, Process, ReadFailure,
        ResolveError, Resolver, Worker, longest,
    };
    use crate::resolver::question::Question;
    use energy_trace_model::recording::record::OwnerDiagnostic;
    use energy_trace_symbols::Detail;
    use energy_trace_system::roles::room::List;
    use nix::sys::signal::Signal;
    use std::fs::File;
    use std::time::Duration;

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

    /// The process of a test has a thread beside the one that forks; it waits and holds no lock.
    fn worker() -> (Resolver, Worker) {
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        (resolver, worker)
    }

    fn kill(pid: i32, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }

    /// The process that reads files of this owner, and its number.
    fn process_of(worker: &Worker, owner: Owner) -> (i32, u32) {
        let state = worker.state.lock().unwrap();
        let process = &state.processes[&owner];
        (process.pid, process.number)
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
        assert_eq!(resolver.failures(9), (Vec::new(), 0));
    }

    /// A worker is a user that nobody else is, has no capabilities, a filter on its system calls, and no files but the channel and nothing's.
    #[test]
    fn what_a_worker_may_do() {
        let (_resolver, worker) = worker();
        worker.facts(LIBC, &File::open(LIBC).unwrap(), &[]).unwrap();
        // With the next question the files of the last one are closed.
        assert!(worker.ask::<u32>(LIBC, &Question::NameFacts, &[], Duration::from_secs(5)).is_err());
        let pid = process_of(&worker, Owner::Root).0;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let has = |line: &str| assert!(status.lines().any(|found| found == line), "{line} in {status}");
        has("Name:\tet-resolver");
        has("NoNewPrivs:\t1");
        has("Seccomp:\t2");
        let uid = std::os::unix::fs::MetadataExt::uid;
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap();
        let user = user.split('\t').next().unwrap();
        for ids in ["Uid", "Gid"] {
            has(&format!("{ids}:\t{user}\t{user}\t{user}\t{user}"));
        }
        assert!(user.parse::<u32>().unwrap() > 999 && user != "65534", "{user}");
        assert_eq!(uid(&std::fs::metadata(format!("/proc/{pid}/mem")).unwrap()), 0, "it can be traced");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            has(&format!("{set}:\t0000000000000000"));
        }
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut leads: Vec<_> = files.map(|file| std::fs::read_link(file.unwrap().path()).unwrap()).collect();
        leads.sort();
        assert_eq!(leads.len(), 4, "{leads:?}");
        assert!(leads[..3].iter().all(|link| link == std::path::Path::new("/dev/null")), "{leads:?}");
    }

    /// A worker that ends, here by a kill, costs the one answer: the file is named, and the next has a new one.
    #[test]
    fn workers_are_replaced() {
        let (resolver, worker) = worker();
        let file = File::open(LIBC).unwrap();
        worker.keep(LIBC, &file, 1).unwrap();
        assert_eq!(worker.generation(), 0);
        let (pid, _) = process_of(&worker, Owner::Root);
        kill(pid, Signal::SIGKILL);
        assert!(matches!(worker.rule("hostile", 1, 0), Err(ResolveError::Lost(ReadFailure::Died))));
        assert_eq!(worker.generation(), 1);
        assert!(worker.facts(LIBC, &file, &[]).is_ok());
        assert_eq!(resolver.failures(9), (vec![("hostile".to_owned(), ReadFailure::Died)], 0));
        assert_eq!(resolver.diagnostics(), []);
    }

    /// A file like libc, of this user.
    fn file_of(uid: u32) -> File {
        let mut file = tempfile::tempfile().unwrap();
        std::io::copy(&mut File::open(LIBC).unwrap(), &mut file).unwrap();
        std::os::unix::fs::fchown(&file, Some(uid), Some(uid)).unwrap();
        file
    }

    /// Files of root's, of one user and of another are read by a process each, whatever comes between; there are no more than a few, and what
    /// one kept that ended for others is gone.
    #[test]
    fn a_process_for_each_owner() {
        let (_resolver, worker) = worker();
        let ask =
            |uid| worker.keep(LIBC, &file_of(uid), uid).map(|_| process_of(&worker, Owner::of_user(uid)).1);
        let first: Vec<u32> = [0, 1, 2].into_iter().map(|uid| ask(uid).unwrap()).collect();
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        let again: Vec<u32> = [2, 1, 0].into_iter().map(|uid| ask(uid).unwrap()).collect();
        assert_eq!(again, [first[2], first[1], first[0]]);
        let others: Vec<u32> = (3..6).map(|uid| ask(uid).unwrap()).collect();
        assert_eq!(worker.state.lock().unwrap().processes.len(), 1 + MOST_PROCESSES, "{others:?}");
        assert_eq!(worker.generation(), 1);
        let kept = |number: u32| worker.rule(LIBC, number, 0).is_ok();
        assert_eq!([0, 1, 2, 5].map(kept), [true, true, false, true]);
    }

    /// Files of one user that end workers take nothing from others: not their answers, and not the time that they may take.
    #[test]
    fn who_ends_workers_pays() {
        let (resolver, worker) = worker();
        let (bad, good) = (file_of(1), file_of(2));
        worker.keep("bad", &bad, 1).unwrap();
        let (pid, _) = process_of(&worker, Owner::User(1));
        kill(pid, Signal::SIGKILL);
        assert!(matches!(worker.facts("bad", &bad, &[]), Err(ResolveError::Lost(ReadFailure::Died))));
        for _ in 1..64 {
            resolver.losses().lose(Owner::User(1), Duration::ZERO);
        }
        assert!(matches!(worker.facts("bad", &bad, &[]), Err(ResolveError::Unavailable(_))));
        assert!(worker.facts("good", &good, &[]).is_ok());
        let refused = OwnerDiagnostic::FilesRefused { questions: vec![(Owner::User(1), 1)] };
        assert_eq!(resolver.diagnostics(), [refused]);
    }

    /// An answer that is longer than its question allows, or unfolds to more, is none: a worker may have been taken over by a file.
    #[test]
    fn answers_without_end() {
        let question = Question::Names { offsets: vec![1], detail: Detail::default(), proofs: Vec::new() };
        for places in [1, 300_000, 1_000_000] {
            let (channel, theirs) = Channel::pair().unwrap();
            let sent = std::thread::spawn(move || {
                let answer = List(vec![energy_trace_symbols::Place::default(); places]);
                let _nobody_listens = theirs.send(&Ok::<_, Fault>(answer), &[], None);
            });
            let inquiry = Inquiry {
                label: "",
                owner: Owner::Root,
                question: &question,
                files: &[],
                worth: Duration::MAX,
            };
            let process = Process { number: 0, pid: 1, server: Pid::new(1), channel };
            let answer = process.ask::<List<energy_trace_symbols::Place>>(&inquiry, Duration::from_secs(20));
            assert_eq!(matches!(answer, Err(ChannelError::Malformed(_))), places > 1, "{places}");
            drop(process);
            sent.join().unwrap();
        }
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
        kill(process_of(&worker, Owner::Root).0, Signal::SIGSTOP);
        let lost =
            worker.ask::<()>("hangs", &Question::Rule { number: 1, svma: 0 }, &[], Duration::from_secs(1));
        assert!(matches!(lost, Err(ResolveError::Lost(ReadFailure::TookTooLong))), "{lost:?}");
    }

    /// A file that is 8 GiB of hole is no ELF file, and costs no memory.
    #[test]
    fn holes() {
        let (resolver, worker) = worker();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 30).unwrap();
        assert!(worker.facts("hole", &file, &[]).unwrap().code.is_empty());
        assert!(worker.names("hole", &file, &[], &[1], Detail::default()).is_ok());
        assert!(worker.perf_map("hole", &file, &[1]).unwrap().is_empty());
        assert_eq!(resolver.failures(9), (Vec::new(), 0));
    }

    /// What workers burn counts.
    #[test]
    fn cpu_time_of_workers() {
        let (resolver, worker) = worker();
        worker.rows(LIBC, &File::open(LIBC).unwrap(), 0, 0).unwrap();
        assert!(resolver.cpu_ns() > 1_000_000, "{}", resolver.cpu_ns());
    }

    /// A server that somebody has stopped keeps nobody from ending.
    #[test]
    fn a_server_that_is_stopped() {
        let (resolver, worker) = worker();
        let server = resolver.pid().unwrap();
        kill(server.get().cast_signed(), Signal::SIGSTOP);
        drop((worker, resolver));
        assert!(!runs(server));
    }

    /// A server that is gone is told of, and costs no file the answer; where no other one can be started, as here, where this program is none, a
    /// recording goes on without answers.
    #[test]
    fn a_server_that_is_gone() {
        let (resolver, worker) = worker();
        let file = File::open(LIBC).unwrap();
        worker.facts(LIBC, &file, &[]).unwrap();
        let (server, reader) = (resolver.pid().unwrap(), process_of(&worker, Owner::Root).0);
        kill(server.get().cast_signed(), Signal::SIGKILL);
        while runs(server) || runs(Pid::new(reader.cast_unsigned())) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..2 {
            let answer = worker.facts(LIBC, &file, &[]);
            assert!(matches!(answer, Err(ResolveError::Unavailable(_))), "{answer:?}");
        }
        assert_eq!(resolver.failures(9), (Vec::new(), 0));
        assert_eq!(resolver.diagnostics(), [OwnerDiagnostic::ReaderLost { times: 1, again: false }]);
    }

    /// Whether there is such a process, which may wait to be collected.
    fn runs(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }
}
