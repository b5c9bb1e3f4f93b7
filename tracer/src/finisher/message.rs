//! What recorder and finisher say to each other.
//!
//! Leaves out the socket between them (`roles::channel`).

use super::prefetch::CommandFiles;
use energy_trace_model::recording::record::Project;
use energy_trace_report::agent_page::OwnShare;
use energy_trace_report::budgets::Verdict;
use serde::{Deserialize, Serialize};

/// The most bytes of a message.
pub(super) const MOST: usize = 1 << 20;

/// What the recorder asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Prepare,
    Prefetch,
    Project,
    Began,
    /// So many events were lost so far, and what the recorder takes; nobody waits for an answer.
    Tell(u64, OwnShare),
    Finish,
    Show,
    Budgets,
}

/// What the finisher says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The recording's file comes with it.
    Prepared,
    /// Files that the command will map.
    ToPrefetch(CommandFiles),
    /// The repository in which the command starts.
    Project(Option<Project>),
    Done,
    /// What became of the budgets.
    Budgets(Verdict),
    /// It cannot be done, and why, with what to do about it.
    Refused(String),
}
