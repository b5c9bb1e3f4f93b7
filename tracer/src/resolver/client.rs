//! The recorder's side: questions about open files, with a deadline, to a worker that is replaced when it is lost.
//!
//! A file that costs a worker its life or its time is named in the recording's warnings, once. A worker that was lost takes with it what it kept
//! (`Worker::generation`). Leaves out what is asked when (`probe/`, `symbolize/`).

use super::question::{Histories, NameFacts, PlainRule, Proof, Question, RowsHead, full_rule};
use super::server::{self, Order};
use crate::roles::channel::{Channel, ChannelError};
use crate::roles::child::{Child, fork_role};
use crate::symbolize::{Detail, Place};
use crate::unwind::cfi::Rows;
use crate::unwind::elf::ElfFacts;
use crate::unwind::file_bytes::Positioned;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of an answer at the most: the names of one library's frames, with what is inlined.
const LONGEST_ANSWER: usize = 256 << 20;
/// Rows of a file at the most: CUDA's largest libraries have a tenth.
const MOST_ROWS: u64 = 64 << 20;
/// How long the server may take to fork a worker.
const TO_START: Duration = Duration::from_secs(10);
/// Workers that one `Worker` may lose: after that its questions are not answered any more.
const MOST_LOST: u32 = 64;

/// What became of a file that a worker was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// The worker ended: the file led a parser astray, took too much memory, or was cut while it was read.
    Died,
    /// The worker took longer than the question was worth.
    TookTooLong,
    /// The answer was no answer, or too long.
    Nonsense,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The worker says what is wrong with the file.
    #[error("{0}")]
    Refused(String),
    /// The worker was lost over it.
    #[error("the process that read it was lost ({0:?})")]
    Lost(Mishap),
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
    mishaps: Mutex<BTreeMap<String, Mishap>>,
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
        let child = fork_role(c"et-resolver", server::run)?;
        let ready = child.channel.receive::<Result<(), String>>(4096, Some(TO_START));
        match ready.map_err(io::Error::other)? {
            (Ok(()), _) => {
                let server = Mutex::new(Server { child: Some(child), next: 0 });
                Ok(Self(Arc::new(Shared { server, mishaps: Mutex::default(), lines })))
            }
            (Err(why), _) => Err(io::Error::other(why)),
        }
    }

    /// Someone to ask; its process is started with the first question. `hurry`: what it reads may be gone soon.
    pub fn worker(&self, hurry: bool) -> Worker {
        Worker { resolver: self.clone(), hurry, state: Mutex::default() }
    }

    /// The files that cost a worker, by the name under which they were asked about, and what became of them.
    pub fn mishaps(&self) -> BTreeMap<String, Mishap> {
        lock(&self.0.mishaps).clone()
    }

    fn begin(&self, hurry: bool) -> Result<(u32, Channel), String> {
        let mut server = lock(&self.0.server);
        let number = server.next;
        server.next += 1;
        let Some(child) = &server.child else { return Err("it has ended".into()) };
        let order = Order::Start { number, hurry, lines: self.0.lines };
        let answered = child
            .channel
            .send(&order, &[], Some(TO_START))
            .and_then(|()| child.channel.receive::<Result<(), String>>(4096, Some(TO_START)));
        match answered {
            Ok((Ok(()), files)) => {
                let end = files.into_iter().next().ok_or("it gave no channel")?;
                Ok((number, Channel::over(end)))
            }
            Ok((Err(why), _)) => Err(why),
            Err(error) => {
                // What it says later would be taken for the answer to something else.
                if let Some(child) = server.child.take() {
                    child.end();
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
            child.end();
        }
    }
}

/// One line of questions, each asked when the one before is answered.
pub struct Worker {
    resolver: Resolver,
    hurry: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<(u32, Channel)>,
    lost: u32,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("hurry", &self.hurry).finish_non_exhaustive()
    }
}

impl Worker {
    /// What a file says of itself, with the places of these symbols.
    ///
    /// # Errors
    /// When there is no answer. `label` names the file in warnings.
    pub fn facts(&self, label: &str, file: &File, wanted: &[&str]) -> Result<ElfFacts, ResolveError> {
        let wanted = wanted.iter().map(|&name| name.to_owned()).collect();
        self.ask(label, &Question::Facts { wanted }, &[file], FACTS)
    }

    /// The unwind rows of a file, sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn rows(&self, label: &str, file: &File, base: u64, entry: u64) -> Result<Rows, ResolveError> {
        let question = Question::Rows { base, entry };
        let (head, files): (RowsHead, _) = self.ask_for_files(label, &question, &[file], ROWS)?;
        let rows = files.into_iter().next().and_then(|rows| read_rows(rows.into(), head.rows).ok());
        let Some(rows) = rows else {
            self.note(label, Mishap::Nonsense);
            return Err(ResolveError::Lost(Mishap::Nonsense));
        };
        let full = head.full.into_iter().map(full_rule).collect();
        Ok(Rows { rows, full, damaged: head.damaged, unsupported: head.unsupported })
    }

    /// Has the worker keep a file under a number.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn keep(&self, label: &str, file: &File, number: u32) -> Result<ElfFacts, ResolveError> {
        self.ask(label, &Question::Keep { number }, &[file], FACTS)
    }

    /// The rule at an address (SVMA) of a file that this generation of the worker keeps.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn rule(&self, label: &str, number: u32, svma: u64) -> Result<PlainRule, ResolveError> {
        self.ask(label, &Question::Rule { number, svma }, &[], RULE)
    }

    /// Where a file's names are.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn name_facts(&self, label: &str, file: &File) -> Result<NameFacts, ResolveError> {
        self.ask(label, &Question::NameFacts, &[file], FACTS)
    }

    /// What is at these places of a file. `debug_files` may belong to it, as their proofs show.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn names(
        &self,
        label: &str,
        file: &File,
        debug_files: &[(File, Proof)],
        offsets: &[u64],
        detail: Detail,
    ) -> Result<Vec<Place>, ResolveError> {
        let proofs = debug_files.iter().map(|(_, proof)| proof.clone()).collect();
        let question = Question::Names { offsets: offsets.to_vec(), detail, proofs };
        let files: Vec<&File> =
            std::iter::once(file).chain(debug_files.iter().map(|(file, _)| file)).collect();
        self.ask(label, &question, &files, if detail.inlines { LINES } else { NAMES })
    }

    /// The names that a perf map has for these addresses, which are sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn perf_map(
        &self,
        label: &str,
        file: &File,
        wanted: &[u64],
    ) -> Result<Vec<(u64, String)>, ResolveError> {
        self.ask(label, &Question::PerfMap { wanted: wanted.to_vec() }, &[file], NAMES)
    }

    /// The histories that a jitdump has for these addresses, which are sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn jit_dump(&self, label: &str, file: &File, wanted: &[u64]) -> Result<Histories, ResolveError> {
        self.ask(label, &Question::JitDump { wanted: wanted.to_vec() }, &[file], NAMES)
    }

    /// Counts up with each process that is lost: what it kept is gone.
    pub fn generation(&self) -> u32 {
        lock(&self.state).lost
    }

    fn ask<T: DeserializeOwned>(
        &self,
        label: &str,
        question: &Question,
        files: &[&File],
        patience: Duration,
    ) -> Result<T, ResolveError> {
        self.ask_for_files(label, question, files, patience).map(|(answer, _)| answer)
    }

    fn ask_for_files<T: DeserializeOwned>(
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
            state.process = Some(self.resolver.begin(self.hurry).map_err(ResolveError::Unavailable)?);
        }
        let Some((number, channel)) = &state.process else {
            return Err(ResolveError::Unavailable("it has ended".into()));
        };
        // Whoever makes it wait has less of its time the next time.
        let patience = (patience / (1 << state.lost.min(6))).max(SHORTEST);
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
        let answer = channel
            .send(question, &files, Some(patience))
            .and_then(|()| channel.receive::<Result<T, String>>(LONGEST_ANSWER, Some(patience)));
        match answer {
            Ok((answer, files)) => answer.map(|answer| (answer, files)).map_err(ResolveError::Refused),
            Err(error) => {
                self.resolver.end(*number);
                state.process = None;
                state.lost += 1;
                let mishap = mishap_of(&error);
                log::debug!("{label}: {error}");
                self.note(label, mishap);
                Err(ResolveError::Lost(mishap))
            }
        }
    }

    fn note(&self, label: &str, mishap: Mishap) {
        lock(&self.resolver.0.mishaps).insert(label.to_owned(), mishap);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, channel)) = state.process.take() {
            drop(channel);
            self.resolver.end(number);
        }
    }
}

/// How long each kind of question is worth waiting for, on a machine that is busy.
const FACTS: Duration = Duration::from_secs(10);
const ROWS: Duration = Duration::from_secs(60);
const RULE: Duration = Duration::from_secs(4);
const NAMES: Duration = Duration::from_secs(30);
const LINES: Duration = Duration::from_secs(600);
/// What is waited for in any case.
const SHORTEST: Duration = Duration::from_secs(1);

const fn mishap_of(error: &ChannelError) -> Mishap {
    match error {
        ChannelError::TimedOut => Mishap::TookTooLong,
        ChannelError::Closed | ChannelError::Io(_) => Mishap::Died,
        ChannelError::Malformed(_) => Mishap::Nonsense,
    }
}

/// Reads rows, which must be in order: the probes search them.
fn read_rows(file: File, count: u64) -> io::Result<Vec<u64>> {
    let odd = || io::Error::from(io::ErrorKind::InvalidData);
    let length = file.metadata()?.len();
    if count > MOST_ROWS || length != count * 8 {
        return Err(odd());
    }
    let mut rows = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    let mut from = BufReader::with_capacity(1 << 16, Positioned::new(&file));
    let mut word = [0; 8];
    for _ in 0..count {
        from.read_exact(&mut word)?;
        rows.push(u64::from_ne_bytes(word));
    }
    let places = rows.iter().map(|row| row >> 32);
    if places.is_sorted() { Ok(rows) } else { Err(odd()) }
}

/// What a panic on another thread left behind is whole: every change is one call.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Mishap, ResolveError, Resolver, Worker, read_rows};
    use crate::resolver::question::Question;
    use crate::symbolize::Detail;
    use std::fs::File;
    use std::io::Write as _;
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
        let here = crate::unwind::elf::ElfFacts::read(&file, &["qsort"]).unwrap();
        assert_eq!((facts.base, facts.symbol("qsort")), (here.base, here.symbol("qsort")));
        let rows = worker.rows(LIBC, &file, facts.base, 0).unwrap();
        let rows_here = crate::unwind::cfi::read_rows(&file, facts.base).unwrap();
        assert!(rows.rows == rows_here.rows && rows.full == rows_here.full);
        let qsort = facts.symbol("qsort").unwrap();
        worker.keep(LIBC, &file, 7).unwrap();
        let mut unwinds = crate::unwind::fde::UnwindFile::open(file.try_clone().unwrap()).unwrap();
        assert_eq!(worker.rule(LIBC, 7, qsort).unwrap().0, unwinds.rule(qsort).0.0);
        let place = facts.file_offset(qsort).unwrap();
        let names = worker.names(LIBC, &file, &[], &[place + 1], Detail::default()).unwrap();
        assert!(names[0].name.as_ref().unwrap().name.starts_with("qsort"));
        assert!(matches!(worker.rule(LIBC, 8, 0), Err(ResolveError::Refused(_))));
        assert_eq!(resolver.mishaps().len(), 0);
    }

    /// A worker is nobody, has no capabilities, a filter on its system calls, and no files but the channel and nothing's.
    #[test]
    fn what_a_worker_may_do() {
        let (resolver, worker) = worker();
        worker.facts(LIBC, &File::open(LIBC).unwrap(), &[]).unwrap();
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
        let number = worker.state.lock().unwrap().process.as_ref().unwrap().0;
        resolver.end(number);
        // The end is the server's next work; the answer to a new worker comes behind it.
        let _other = resolver.begin(false).unwrap();
        assert!(matches!(worker.rule("hostile", 1, 0), Err(ResolveError::Lost(Mishap::Died))));
        assert_eq!(worker.generation(), 1);
        assert!(worker.facts(LIBC, &file, &[]).is_ok());
        let mishaps: Vec<_> = resolver.mishaps().into_iter().collect();
        assert_eq!(mishaps, [("hostile".to_owned(), Mishap::Died)]);
    }

    /// A file that is 8 GiB of hole costs an error and no memory; one with no ELF header the same.
    #[test]
    fn holes() {
        let (resolver, worker) = worker();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 30).unwrap();
        assert!(matches!(worker.facts("hole", &file, &[]), Err(ResolveError::Refused(_))));
        assert!(worker.names("hole", &file, &[], &[1], Detail::default()).is_ok());
        assert!(worker.perf_map("hole", &file, &[1]).unwrap().is_empty());
        assert_eq!(resolver.mishaps().len(), 0);
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

    /// Rows that are not in order, or not as many as was said, are refused: the probes search them.
    #[test]
    fn rows_are_checked() {
        let rows = |rows: &[u64], count| {
            let mut file = tempfile::tempfile().unwrap();
            rows.iter().for_each(|row| file.write_all(&row.to_ne_bytes()).unwrap());
            read_rows(file, count).ok()
        };
        assert_eq!(rows(&[1 << 32, 2 << 32], 2), Some(vec![1 << 32, 2 << 32]));
        assert_eq!(rows(&[2 << 32, 1 << 32], 2), None);
        assert_eq!(rows(&[1 << 32], 2), None);
        assert_eq!(rows(&[], u64::MAX), None);
    }
}
