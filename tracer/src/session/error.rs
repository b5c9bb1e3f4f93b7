//! Why a recording failed, in one enum for the whole session. Each text is for the person who reads it.

use crate::finisher::FinisherError;
use crate::tracee::attach::AttachError;
use crate::tracee::cgroup::CgroupError;
use crate::tracee::launch::LaunchError;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::file::FileError;
use energy_trace_power::PowerError;
use energy_trace_probe::ProbeError;
use energy_trace_system::host::limits::{LimitError, advise};
use energy_trace_system::privileges::PrivilegeError;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Not allowed, or the kernel cannot.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A limit of the process is too low.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The kernel numbers processes differently from us.
    #[error(
        "energy-trace runs in a container with its own pid namespace, but the kernel reports the host's process ids: run it on the host, \
         or start the container with --pid=host"
    )]
    PidNamespace,
    /// The command does not exist.
    #[error("{}: command not found", command.display())]
    NotFound {
        /// Its name as typed.
        command: OsString,
    },
    /// The command exists and cannot be executed.
    #[error("cannot execute {}: {source}", command.display())]
    NotExecutable {
        /// Its name as typed.
        command: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] FileError),
    /// An output file or the results cannot be made.
    #[error(transparent)]
    Finisher(#[from] FinisherError),
    /// No usable power source.
    #[error(transparent)]
    Power(#[from] PowerError),
    /// The BPF programs do not load or attach.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The command cannot be forked.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A process cannot be attached to.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A control group has no processes.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// `--control` has nothing to listen to.
    #[error(
        "--control ends the recording with stdin, and stdin is no pipe but a file or /dev/null: let the program that starts this one give \
         it a pipe, or try `sleep 60 | energy-trace record --control -p PID`"
    )]
    NoPipe,
    /// One user's processes alone may be recorded, and one is another's.
    #[error(
        "process {0} has the rights of another user, hides its memory from its own, or just became such a program: it cannot be \
         recorded for who asks"
    )]
    Anothers(Pid),
    /// Threads, signals or waiting failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The process of an agent that makes its numbers does not answer.
    #[error(
        "the process that serves the metrics (et-finisher) did not answer for {} s, and was ended; the last window is lost",
        .0.as_secs()
    )]
    AgentSilent(Duration),
    /// Somebody has stopped it.
    #[error(
        "the process that serves the metrics (et-finisher) was stopped by somebody (SIGSTOP), and was ended; the last window is lost"
    )]
    AgentStopped,
    /// The same of who makes the results.
    #[error(
        "the process that writes the output files (et-finisher) was stopped by somebody (SIGSTOP), and was ended before it was done; \
         what was recorded is in {}, which `energy-trace report` shows",
        .0.display()
    )]
    FinisherStopped(PathBuf),
    /// The same before anything ran.
    #[error(
        "the process for output files and metrics (et-finisher) was stopped by somebody (SIGSTOP) while the recording was set up, and was \
         ended; nothing was recorded, and the command did not run"
    )]
    StoppedInSetUp,
    /// A signal ended energy-trace: during the set-up, or the second one later. Nothing is wrong.
    #[error("ended by {0}")]
    Ended(Signal),
}

impl SessionError {
    /// What else the user can do about it, but for a command that did not start (`cli`).
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Probe(error) => error.advice().or_else(|| advise(error)),
            other => advise(other),
        }
    }
}
