//! The recorder's side of the finisher: one request after the other, and the end of the process.
//!
//! Leaves out the finisher's own side (`role.rs`).

use super::message::{Answer, MOST, Request};
use super::prefetch::CommandFiles;
use super::role;
use crate::plan::RecordPlan;
use energy_trace_model::recording::record::Project;
use energy_trace_report::agent_page::OwnShare;
use energy_trace_report::budgets::Verdict;
use energy_trace_system::roles::channel::ChannelError;
use energy_trace_system::roles::child::{Child, fork_role};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How long a message may take that has begun to come, and the process to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the finisher's work is not done.
#[derive(Debug, thiserror::Error)]
pub enum FinisherError {
    /// It says why.
    #[error("{0}")]
    Refused(String),
    /// There is no process for it.
    #[error("cannot start the process that writes the output files: {0}")]
    Fork(#[source] io::Error),
    /// That of an agent has ended before its time: somebody ended it, or it had no more memory.
    #[error("the process that serves the metrics (et-finisher) has ended: {0}")]
    AgentGone(#[source] ChannelError),
    /// It has ended before its time, or says what makes no sense.
    #[error(
        "the process that writes the output files (et-finisher) cannot be reached: {source}; what was recorded is in {recording}, which \
         `energy-trace report` shows"
    )]
    Gone {
        /// What happened.
        source: ChannelError,
        /// The recording as it was named.
        recording: PathBuf,
    },
}

/// The process, from the recorder's side. When it is dropped it ends, at once if it is at work.
#[derive(Debug)]
pub struct Finisher {
    child: Option<Child>,
    recording: PathBuf,
    /// Whether it is an agent's.
    serves: bool,
    /// Whether its end is not to be waited for: a result is being made or shown.
    at_work: Cell<bool>,
}

impl Finisher {
    /// Forks it. Must be called while this process has one thread.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn fork(plan: &RecordPlan) -> Result<Self, FinisherError> {
        let child =
            fork_role(c"et-finisher", |parent| role::serve(plan, &parent)).map_err(FinisherError::Fork)?;
        let (recording, serves) = (plan.recording.clone(), plan.agent.is_some());
        Ok(Self { child: Some(child), recording, serves, at_work: Cell::new(false) })
    }

    /// Its process.
    pub fn pid(&self) -> Option<energy_trace_model::ids::Pid> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether somebody has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.child.as_ref().is_some_and(Child::is_stopped)
    }

    /// Makes the output files; returns the recording's, open for writing.
    ///
    /// # Errors
    /// When one cannot be made: then none is.
    pub async fn prepare(&self) -> Result<File, FinisherError> {
        match self.ask(Request::Prepare).await? {
            (Answer::Prepared, files) => {
                let file = files.into_iter().next().ok_or(ChannelError::Malformed("no file"));
                Ok(file.map_err(|error| self.gone(error))?.into())
            }
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// Which files the command will map as code, as far as this is known before it runs.
    ///
    /// # Errors
    /// When the finisher is gone.
    pub async fn files_to_prefetch(&self) -> Result<CommandFiles, FinisherError> {
        match self.ask(Request::Prefetch).await? {
            (Answer::ToPrefetch(files), _) => Ok(files),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// The repository in which the command starts; `None` where no command is started.
    ///
    /// # Errors
    /// When the finisher is gone.
    pub async fn project(&self) -> Result<Option<Project>, FinisherError> {
        match self.ask(Request::Project).await? {
            (Answer::Project(project), _) => Ok(project),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// The command runs: the files are kept from now on. Nobody waits for the finisher, which its user can stop; where it is gone that is
    /// reported at the end, and what the command does is recorded.
    pub fn began(&self) {
        if let Some(child) = &self.child {
            let _told_later = child.channel.send(&Request::Began, &[], Some(PATIENCE));
        }
    }

    /// So many events were lost so far, and what the recorder takes. Whether the finisher hears of it is its own affair.
    pub fn tell(&self, lost: u64, share: OwnShare) {
        if let Some(child) = &self.child {
            let _told_again = child.channel.send(&Request::Tell(lost, share), &[], Some(Duration::ZERO));
        }
    }

    /// Attributes and draws. The recording must be written by now.
    ///
    /// # Errors
    /// When there is no result, or it cannot be written.
    pub async fn finish(&self) -> Result<(), FinisherError> {
        self.at_work.set(true);
        let done = self.done(Request::Finish).await;
        self.at_work.set(false);
        done
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// When the finisher is gone.
    pub async fn show(&self) -> Result<(), FinisherError> {
        self.at_work.set(true);
        let done = self.done(Request::Show).await;
        self.at_work.set(false);
        done
    }

    /// Holds the budgets against the result, and prints what became of them.
    ///
    /// # Errors
    /// When the finisher is gone.
    pub async fn budgets(&self) -> Result<Verdict, FinisherError> {
        match self.ask(Request::Budgets).await? {
            (Answer::Budgets(verdict), _) => Ok(verdict),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// It does not answer, and is not waited for at its end either.
    pub fn give_up(&self) {
        self.at_work.set(true);
    }

    /// Has it go on where somebody has stopped it: as nothing ran, its end leaves the files as they were.
    pub fn resume(&self) {
        self.child.iter().for_each(Child::resume);
    }

    async fn done(&self, request: Request) -> Result<(), FinisherError> {
        match self.ask(request).await? {
            (Answer::Done, _) => Ok(()),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    async fn ask(&self, request: Request) -> Result<(Answer, Vec<OwnedFd>), FinisherError> {
        self.exchange(request).await.map_err(|error| self.gone(error))
    }

    /// May take as long as the work does: nobody is kept from anything meanwhile.
    async fn exchange(&self, request: Request) -> Result<(Answer, Vec<OwnedFd>), ChannelError> {
        let channel = &self.child.as_ref().ok_or(ChannelError::Closed)?.channel;
        channel.send(&request, &[], Some(PATIENCE))?;
        // SAFETY: the descriptor is borrowed from the channel, which stays open for as long as the borrow lasts.
        let ready = unsafe { AsyncFd::register_with_interest(channel.as_fd(), Interest::READABLE) };
        let ready = ready.map_err(io::Error::from)?;
        let _ready = ready.readable().await?;
        channel.receive(MOST, Some(PATIENCE))
    }

    fn unexpected(&self, answer: Answer) -> FinisherError {
        match answer {
            Answer::Refused(why) => FinisherError::Refused(why),
            _ => self.gone(ChannelError::Malformed("another answer")),
        }
    }

    fn gone(&self, error: ChannelError) -> FinisherError {
        if self.serves {
            return FinisherError::AgentGone(error);
        }
        FinisherError::Gone { source: error, recording: self.recording.clone() }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        // Work that nobody wants any more is not waited for.
        child.end(if self.at_work.get() { Duration::ZERO } else { PATIENCE });
    }
}
