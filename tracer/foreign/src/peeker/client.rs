//! The recorder's side: one question at a time, with a deadline, to a process that is put aside when it does not answer.
//!
//! Leaves out what can be asked (`ask.rs`).

use super::owners::Owners;
use super::question::Question;
use super::server::{self, Order};
use crate::files::user_of_process;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Unanswering;
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_system::roles::child::{Child, fork_role};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of an answer at the most.
const LONGEST_ANSWER: usize = 32 << 20;
/// How long the server may take to fork a process, and to end.
const TO_START: Duration = Duration::from_secs(10);
const TO_END: Duration = Duration::from_secs(1);
/// How long an answer is awaited, aside, before the process that owes it is given up.
const GIVEN_UP: Duration = Duration::from_secs(2);
/// Processes aside at the most: before one more the oldest is given up.
const MOST_ASIDE: usize = 32;
/// How many times as long an answer may take where the process that owes it runs, or waits for a CPU.
const BUSY: u32 = 4;

/// Files that root may not read and that are named, of one user.
const MOST_NOT_ROOTS: usize = 64;

/// There is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// None came in time; the same question may be answered later.
    #[error("no answer came in time")]
    Late,
    /// The process, or its user's others, let somebody wait too often: it is asked about no more.
    #[error("it is asked about no more")]
    Refused,
}

/// Whom to ask about targets.
#[derive(Clone, Debug)]
pub struct Peeker(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    server: Option<Child>,
    next: u32,
    ready: Option<Process>,
    stalled: Vec<StalledPeeker>,
    owners: Owners,
    /// Processes that are asked about no more.
    refused: HashSet<Pid>,
    /// The same, for the reader of the recording: what is gone stays here.
    told: BTreeMap<Pid, Unanswering>,
    /// Files that neither root nor their user could read, by that user.
    not_roots: BTreeMap<u32, BTreeSet<String>>,
    /// Whether somebody was told that a process of ours was ended.
    said: bool,
    only_into: Option<OnlyInto>,
}

/// Which processes may be looked into, where not all may.
struct OnlyInto(Box<dyn Fn(Pid) -> bool + Send>);

impl fmt::Debug for OnlyInto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnlyInto")
    }
}

/// A process that looks into targets.
#[derive(Debug)]
struct Process {
    number: u32,
    pid: i32,
    channel: Channel,
}

/// One that owes an answer.
#[derive(Debug)]
struct StalledPeeker {
    process: Process,
    about: Pid,
    owner: u32,
    since: Instant,
}

impl Peeker {
    /// Forks the server. Must be called while this process has one thread.
    ///
    /// # Errors
    /// When no process can be had, or it cannot give up the privileges that it does not need.
    pub fn start() -> io::Result<Self> {
        let child = fork_role(c"et-peeker", |parent| server::run(&parent))?;
        let ready = child.channel.receive::<Result<(), String>>(4096, Some(TO_START));
        match ready.map_err(io::Error::other)? {
            (Ok(()), _) => Ok(Self(Arc::new(Mutex::new(State::new(child))))),
            (Err(why), _) => Err(io::Error::other(why)),
        }
    }

    /// The process that forks the others, while it is there.
    pub fn pid(&self) -> Option<Pid> {
        self.lock().server.as_ref().map(Child::id)
    }

    /// From now on what was read counts only where its process may still be looked into: it may be another user's program by then.
    pub fn look_only_into(&self, may: impl Fn(Pid) -> bool + Send + 'static) {
        self.lock().only_into = Some(OnlyInto(Box::new(may)));
    }

    /// Ends its processes, whoever holds it still. Dropped by a thread, it may end after us, and nobody collects it.
    pub fn end(&self) {
        self.lock().end_server();
    }

    /// The processes about which no answer came, the first of them first.
    pub fn unanswered(&self) -> Vec<Unanswering> {
        let mut state = self.lock();
        state.look_aside();
        let awaited: Vec<_> = state.stalled.iter().map(|stalled| (stalled.about, stalled.owner)).collect();
        awaited.into_iter().for_each(|(about, owner)| state.tell(about, owner));
        state.told.values().cloned().collect()
    }

    /// Files that neither root nor their user could read, each with that user.
    pub fn not_roots(&self) -> Vec<(String, u32)> {
        let of_users = &self.lock().not_roots;
        of_users.iter().flat_map(|(user, files)| files.iter().map(|file| (file.clone(), *user))).collect()
    }

    pub(super) fn note_not_roots(&self, user: u32, path: &str) {
        let mut state = self.lock();
        let files = state.not_roots.entry(user).or_default();
        if files.len() < MOST_NOT_ROOTS {
            files.insert(path.to_owned());
        }
    }

    /// A process is gone: its number may be another one's from now on.
    pub fn forget(&self, pid: Pid) {
        self.lock().refused.remove(&pid);
    }

    /// CPU time of all its processes so far, in nanoseconds; those that have ended count to a hundredth of a second.
    pub fn cpu_ns(&self) -> u64 {
        self.lock().server.as_ref().map_or(0, |child| crate::resolver::cpu_ns_of_all(child.id()))
    }

    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        about: Pid,
        question: &Question,
    ) -> Result<(T, Vec<OwnedFd>), Unanswered> {
        let mut state = self.lock();
        let answer = state.ask(about, question)?;
        if state.only_into.as_ref().is_some_and(|OnlyInto(may)| !may(about)) {
            return Err(Unanswered::Refused);
        }
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(server: Child) -> Self {
        Self {
            server: Some(server),
            next: 0,
            ready: None,
            stalled: Vec::new(),
            owners: Owners::default(),
            refused: HashSet::new(),
            told: BTreeMap::new(),
            not_roots: BTreeMap::new(),
            said: false,
            only_into: None,
        }
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        about: Pid,
        question: &Question,
    ) -> Result<(T, Vec<OwnedFd>), Unanswered> {
        self.look_aside();
        if self.refused.contains(&about) {
            return Err(Unanswered::Refused);
        }
        if self.stalled.iter().any(|stalled| stalled.about == about) {
            return Err(Unanswered::Late);
        }
        let (mut patience, begun) = (question.patience(), Instant::now());
        let counted = question.is_of_many().then(|| owner_of(about));
        if counted.is_some_and(|owner| self.owners.has_to_wait(owner, begun)) {
            return Err(Unanswered::Late);
        }
        if !self.owners.is_empty() {
            let owner = counted.unwrap_or_else(|| owner_of(about));
            patience = self.owners.patience(owner, patience)?;
        }
        let process = self.ready.take().map_or_else(|| self.begin(), Ok)?;
        let answer = process.ask(about, question, patience);
        counted.into_iter().for_each(|owner| self.owners.took(owner, begun.elapsed()));
        match answer {
            Ok(answer) => {
                self.ready = Some(process);
                Ok(answer)
            }
            Err(ChannelError::Closed) => {
                self.lost(&process);
                Err(Unanswered::Late)
            }
            Err(error) => {
                log::debug!("process {about} was looked into in vain: {error}");
                self.put_aside(process, about);
                Err(Unanswered::Late)
            }
        }
    }

    /// A process of ours has ended, which is the fault of nobody who is looked into: another one goes on.
    fn lost(&mut self, process: &Process) {
        self.end(process.number);
        if !std::mem::replace(&mut self.said, true) {
            let pid = process.pid;
            log::warn!(
                "a process that looks into programs (et-peeker, {pid}) was ended by somebody else; another one goes on"
            );
        }
    }

    fn put_aside(&mut self, process: Process, about: Pid) {
        let owner = owner_of(about);
        self.owners.await_one(owner);
        self.stalled.push(StalledPeeker { process, about, owner, since: Instant::now() });
    }

    /// Sees which answers came after all, and gives up what took too long. Late answers are not needed any more.
    fn look_aside(&mut self) {
        let most = self.stalled.len().saturating_sub(MOST_ASIDE);
        for (place, stalled) in std::mem::take(&mut self.stalled).into_iter().enumerate() {
            match stalled.process.channel.is_answering(Duration::ZERO) {
                Ok(true) if stalled.process.lives() => self.owners.came(stalled.owner),
                Ok(false) if stalled.since.elapsed() < GIVEN_UP && place >= most => {
                    self.stalled.push(stalled);
                    continue;
                }
                _ => {
                    self.owners.gave_up(stalled.owner);
                    self.refused.insert(stalled.about);
                    self.tell(stalled.about, stalled.owner);
                }
            }
            self.end(stalled.process.number);
        }
    }

    fn tell(&mut self, about: Pid, owner: u32) {
        let name = || std::fs::read_to_string(format!("/proc/{about}/comm")).unwrap_or_default();
        self.told.entry(about).or_insert_with(|| Unanswering {
            pid: about,
            user: owner,
            name: name().trim_end().to_owned(),
        });
    }

    fn begin(&mut self) -> Result<Process, Unanswered> {
        let number = self.next;
        self.next += 1;
        let child = self.server.as_ref().ok_or(Unanswered::Refused)?;
        let answered = child
            .channel
            .send(&Order::Start { number }, &[], Some(TO_START))
            .and_then(|()| child.channel.receive::<Result<i32, String>>(4096, Some(TO_START)));
        match answered {
            Ok((Ok(pid), files)) => {
                let end = files.into_iter().next().ok_or(Unanswered::Refused)?;
                Ok(Process { number, pid, channel: Channel::over(end) })
            }
            Ok((Err(why), _)) => {
                log::warn!("no process could be started to look into programs: {why}");
                Err(Unanswered::Refused)
            }
            Err(error) => {
                log::warn!("Python functions and new files have no names from now on: {error}");
                // What it says later would be taken for the answer to something else.
                self.end_server();
                Err(Unanswered::Refused)
            }
        }
    }

    fn end_server(&mut self) {
        self.server.take().into_iter().for_each(|child| child.end(TO_END));
    }

    fn end(&self, number: u32) {
        if let Some(child) = &self.server {
            // A server that is gone has taken the others along.
            let _gone = child.channel.send(&Order::End { number }, &[], Some(TO_START));
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.end_server();
    }
}

impl Process {
    fn ask<T: DeserializeOwned>(
        &self,
        about: Pid,
        question: &Question,
        patience: Duration,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.channel.send(&(about, question), &[], Some(patience))?;
        let mut tries = 1..BUSY;
        while !self.channel.is_answering(patience)? {
            // A busy machine is no target's fault.
            if tries.next().is_none() || !self.wants_a_cpu() {
                return Err(ChannelError::TimedOut);
            }
        }
        self.channel.receive(LONGEST_ANSWER, Some(patience * BUSY))
    }

    /// Whether it runs, or would if it had a CPU: it waits for nobody else.
    fn wants_a_cpu(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, behind)| behind.starts_with('R'))
    }

    /// Whether it lives: then what can be read is an answer, and not its end.
    fn lives(&self) -> bool {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), None).is_ok()
    }
}

/// The user of a process; `u32::MAX` where it is gone.
fn owner_of(pid: Pid) -> u32 {
    user_of_process(pid).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Peeker, Unanswered};
    use energy_trace_model::ids::Pid;
    use nix::sys::signal::{Signal, kill};
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    /// Tries until it is so: a busy machine may take its time.
    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Another process to ask about.
    struct Other(Child);

    impl Other {
        fn start() -> Self {
            Self(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn pid(&self) -> Pid {
            Pid::new(self.0.id())
        }
    }

    impl Drop for Other {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// Sends a signal to the process that would answer next, which stands for a page that is never read.
    fn signal(peeker: &Peeker, signal: Signal) -> i32 {
        let number = peeker.lock().ready.as_ref().unwrap().pid;
        kill(nix::unistd::Pid::from_raw(number), signal).unwrap();
        number
    }

    fn knows(peeker: &Peeker, other: &Other) -> bool {
        peeker.program(other.pid()).is_ok_and(|program| program.command == ["sleep", "60"])
    }

    /// Who does not answer costs its target the answers, and another one none; in the end the target is refused and named, until its number is
    /// another's.
    #[test]
    fn what_hangs_is_put_aside() {
        let (peeker, stuck, other) = (Peeker::start().unwrap(), Other::start(), Other::start());
        until("it answers", || knows(&peeker, &stuck));
        signal(&peeker, Signal::SIGSTOP);
        assert_eq!(peeker.program(stuck.pid()), Err(Unanswered::Late));
        until("others are answered", || knows(&peeker, &other));
        assert_eq!(
            peeker.unanswered().first().map(|told| (told.pid, told.name.as_str())),
            Some((stuck.pid(), "sleep"))
        );
        until("it is given up", || peeker.program(stuck.pid()) == Err(Unanswered::Refused));
        until("others are answered still", || knows(&peeker, &other));
        peeker.forget(stuck.pid());
        until("another process of that number is answered", || knows(&peeker, &stuck));
    }

    /// A process of ours that somebody ended is told of, and costs no target its answers.
    #[test]
    fn a_peeker_that_is_killed() {
        let (peeker, other) = (Peeker::start().unwrap(), Other::start());
        until("it answers", || knows(&peeker, &other));
        assert!(!peeker.lock().said);
        let killed = signal(&peeker, Signal::SIGKILL);
        until("another one answers", || knows(&peeker, &other));
        let state = peeker.lock();
        assert!(state.said && state.ready.as_ref().is_some_and(|process| process.pid != killed));
        assert!(state.refused.is_empty() && state.stalled.is_empty() && state.told.is_empty());
    }

    /// An answer that comes late is forgiven: the target is asked about again.
    #[test]
    fn late_answers() {
        let (peeker, slow) = (Peeker::start().unwrap(), Other::start());
        until("it answers", || knows(&peeker, &slow));
        let stopped = signal(&peeker, Signal::SIGSTOP);
        assert_eq!(peeker.program(slow.pid()), Err(Unanswered::Late));
        kill(nix::unistd::Pid::from_raw(stopped), Signal::SIGCONT).unwrap();
        until("it answers again", || knows(&peeker, &slow));
        assert_eq!(peeker.lock().refused.len(), 0);
    }

    /// A server that was killed leaves the recording without answers, and nobody waits.
    #[test]
    fn a_server_that_is_gone() {
        let (peeker, other) = (Peeker::start().unwrap(), Other::start());
        let server = nix::unistd::Pid::from_raw(peeker.pid().unwrap().get().cast_signed());
        kill(server, Signal::SIGKILL).unwrap();
        until("nobody answers", || peeker.program(other.pid()) == Err(Unanswered::Refused));
        assert_eq!(peeker.pid(), None);
    }

    /// What was read of a process that nobody may look into any more is told to nobody.
    #[test]
    fn looks_only_into_some() {
        let (peeker, other, anothers) = (Peeker::start().unwrap(), Other::start(), Other::start());
        until("it answers", || knows(&peeker, &anothers));
        let may = other.pid();
        peeker.look_only_into(move |pid| pid == may);
        until("it answers about one", || knows(&peeker, &other));
        assert_eq!(peeker.program(anothers.pid()), Err(Unanswered::Refused));
    }

    /// It may read others' memory and files, become another user, copy mounts, and nothing else; it has no file open but its channel, and lets go
    /// of the terminal.
    #[test]
    fn what_it_may_do() {
        let (peeker, other) = (Peeker::start().unwrap(), Other::start());
        until("it answers", || knows(&peeker, &other));
        let pid = peeker.lock().ready.as_ref().unwrap().pid;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let has = |line: &str| assert!(status.lines().any(|found| found == line), "{line} in {status}");
        has("Name:\tet-peeker");
        has("NoNewPrivs:\t1");
        // CAP_DAC_READ_SEARCH, CAP_SETGID, CAP_SETUID, CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE
        let rights: u64 = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 18 | 1 << 19 | 1 << 21 | 1 << 40;
        has(&format!("CapEff:\t{rights:016x}"));
        has(&format!("CapPrm:\t{rights:016x}"));
        has("CapBnd:\t0000000000000000");
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let leads: Vec<_> = files.map(|file| std::fs::read_link(file.unwrap().path()).unwrap()).collect();
        let nowhere = leads.iter().filter(|link| *link == std::path::Path::new("/dev/null")).count();
        assert_eq!((nowhere, leads.len()), (3, 4), "{leads:?}");
    }
}
