//! The recorder's side: the processes that read files, started and ended, and what files have cost.
//!
//! A server that is lost, however that came, is replaced by another one; its workers are gone with it, through no file's fault. Leaves out the
//! questions (`worker.rs`, `ask.rs`).

use super::losses::Losses;
use super::server::{self, Order};
use super::usage::cpu_ns_of_all;
use super::worker::{Process, Worker};
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{Owner, OwnerDiagnostic, ReadFailure};
use energy_trace_system::roles::channel::Channel;
use energy_trace_system::roles::child::{Child, execute_role, fork_role};
use energy_trace_system::roles::own_user::OwnUser;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the server may take to fork a worker, or to begin.
const TO_START: Duration = Duration::from_secs(10);
/// How long it may take to end.
const TO_END: Duration = Duration::from_secs(1);
/// Servers that are started in the place of others: somebody who kills each at once does not keep us busy for ever.
const MOST_TRIES: u32 = 16;

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
    servers: Mutex<Servers>,
    losses: Mutex<Losses>,
    lines: bool,
}

/// The server.
#[derive(Debug)]
struct Servers {
    /// `None` when it is lost.
    server: Option<Child>,
    lost: u64,
    /// How often another one was started, or tried to.
    tries: u32,
    /// The next worker's number.
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
        let user = OwnUser::find();
        log::debug!("files are read as {user:?}");
        let server = fork_role(server::NAME, |parent| server::run(&parent, &user))?;
        let server = Some(when_ready(server).map_err(io::Error::other)?);
        let servers = Mutex::new(Servers { server, lost: 0, tries: 0, next: 0 });
        Ok(Self(Arc::new(Shared { servers, losses: Mutex::default(), lines })))
    }

    /// Ends its processes, whoever holds it still. Dropped by a thread, it may end after us, and nobody collects it.
    pub fn end(&self) {
        let mut servers = self.servers();
        servers.tries = MOST_TRIES;
        servers.end();
    }

    /// Someone to ask; its processes are started with the first question. `urgent`: what it reads may be gone soon.
    pub fn worker(&self, urgent: bool) -> Worker {
        Worker::new(self.clone(), urgent)
    }

    /// Some of the files that cost a worker, by the names under which they were requested, what became of them, and how many more there are.
    pub fn failures(&self, most: usize) -> (Vec<(String, ReadFailure)>, u64) {
        self.losses().files(most)
    }

    /// What whoever reads the recording must know of its processes.
    pub fn diagnostics(&self) -> Vec<OwnerDiagnostic> {
        let questions = self.losses().refused();
        let refused = (!questions.is_empty()).then_some(OwnerDiagnostic::FilesRefused { questions });
        let servers = self.servers();
        let lost = (servers.lost > 0)
            .then_some(OwnerDiagnostic::ReaderLost { times: servers.lost, again: servers.server.is_some() });
        lost.into_iter().chain(refused).collect()
    }

    /// The process that forks the others, while it is there.
    pub fn pid(&self) -> Option<Pid> {
        self.servers().server.as_ref().map(Child::id)
    }

    /// CPU time of all its processes so far, in nanoseconds; those that have ended count to a hundredth of a second.
    pub fn cpu_ns(&self) -> u64 {
        self.pid().map_or(0, cpu_ns_of_all)
    }

    /// How long files of this owner have kept workers busy.
    pub fn spent(&self, owner: Owner) -> Duration {
        self.losses().spent(owner)
    }

    pub(super) fn losses(&self) -> MutexGuard<'_, Losses> {
        lock(&self.0.losses)
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        lock(&self.0.servers)
    }

    /// A new worker, of a new server where the last one is lost.
    pub(super) fn begin(&self, urgent: bool) -> Result<Process, String> {
        let mut servers = self.servers();
        let mut begun = servers.begin(urgent, self.0.lines);
        while begun.is_err() && servers.renew()? {
            begun = servers.begin(urgent, self.0.lines);
        }
        begun
    }

    /// Ends a worker. Whether its server is still there.
    pub(super) fn end_worker(&self, worker: &Process) -> bool {
        let mut servers = self.servers();
        let Some(server) = servers.server.as_ref().filter(|server| server.id() == worker.server) else {
            return false;
        };
        let there = server.channel.send(&Order::End { number: worker.number }, &[], Some(TO_START)).is_ok();
        if !there {
            servers.lose();
        }
        there
    }
}

impl Servers {
    /// Starts another server in the place of one that is lost; false where none is.
    fn renew(&mut self) -> Result<bool, String> {
        if self.server.is_some() {
            return Ok(false);
        }
        if self.tries >= MOST_TRIES {
            return Err("it was ended too often".into());
        }
        self.tries += 1;
        let name = server::NAME.to_string_lossy();
        let server = execute_role(&name).map_err(|error| error.to_string())?;
        self.server = Some(when_ready(server)?);
        Ok(true)
    }

    /// Has the server start a worker. A server that does not answer is lost.
    fn begin(&mut self, urgent: bool, lines: bool) -> Result<Process, String> {
        let number = self.next;
        self.next += 1;
        let Some(server) = &self.server else { return Err("it has ended".into()) };
        let order = Order::Start { number, urgent, lines };
        let answered = server
            .channel
            .send(&order, &[], Some(TO_START))
            .and_then(|()| server.channel.receive::<Result<i32, String>>(4096, Some(TO_START)));
        match answered {
            Ok((Ok(pid), files)) => {
                let end = files.into_iter().next().ok_or("it gave no channel")?;
                Ok(Process { number, pid, server: server.id(), channel: Channel::over(end) })
            }
            Ok((Err(why), _)) => Err(why),
            Err(error) => {
                // What it says later would be taken for the answer to something else.
                self.lose();
                Err(error.to_string())
            }
        }
    }

    fn end(&mut self) {
        if let Some(server) = self.server.take() {
            server.end(TO_END);
        }
    }

    fn lose(&mut self) {
        if let Some(server) = self.server.take() {
            log::warn!("the process that starts those that read files was lost");
            self.lost += 1;
            server.end(Duration::ZERO);
        }
    }
}

/// A server that says that it has given up its rights; one that does not is ended.
fn when_ready(server: Child) -> Result<Child, String> {
    let ready = server.channel.receive::<Result<(), String>>(4096, Some(TO_START));
    match ready.map_err(|error| error.to_string()).and_then(|(ready, _)| ready) {
        Ok(()) => Ok(server),
        Err(why) => {
            server.end(Duration::ZERO);
            Err(why)
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a panic on another thread left behind is whole: every change is one call.
pub(super) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
