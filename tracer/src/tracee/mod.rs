//! Whose energy is recorded: a command that is launched, or processes that already run.
//!
//! `launch` starts a command and holds it before its first instruction, `attach` and `cgroup` find running processes, `signals` says
//! which signals reached energy-trace and which of them the command has not seen yet, `user` is the person behind `sudo`, `peer` whoever
//! has connected to a service, `injection` what CUDA's driver is to load into the command, `range_injection` what NVTX and ITT are,
//! `named_folder` where that lies.
//! Leaves out what happens to a target afterwards (`probe/`) and when a recording ends (`session/`).

pub mod attach;
pub mod become_user;
pub mod cgroup;
pub mod injection;
pub mod launch;
pub mod lookup;
mod named_folder;
pub mod peer;
pub mod prefetch;
pub mod python_counting;
pub mod range_injection;
pub mod signals;
pub mod user;

use energy_trace_model::ids::Pid;
use std::ffi::OsString;
use std::path::PathBuf;

/// Whose energy is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A command with its arguments; never empty.
    Command(Vec<OsString>),
    /// These processes and everything below them.
    Processes(Vec<Pid>),
    /// The processes of a control group and of the groups in it.
    Cgroup(PathBuf),
    /// Every process of the machine, until somebody stops it.
    Machine,
}

impl Target {
    /// The command as typed; empty when there is none.
    pub fn command(&self) -> &[OsString] {
        match self {
            Self::Command(words) => words,
            _ => &[],
        }
    }
}
