//! What the conductor asks of the launcher, and what it answers. Leaves out the socket (`roles::channel`).

use serde::{Deserialize, Serialize};

/// A message of the conductor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// What may be run, by number, from now on; taken once only.
    Programs(Vec<Vec<String>>),
    /// Runs a program once. Two files come with it: where its output goes, and its errors.
    Run {
        /// Its number.
        program: u32,
        /// Where its recording goes. The recorder makes that file as the invoking user.
        recording: String,
        /// Milliseconds after which it is ended.
        limit_ms: Option<u64>,
    },
    /// Waits.
    Rest {
        /// How long.
        ms: u64,
    },
    /// The study has ended, with this exit status.
    End(u8),
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The run ended, with `record`'s exit status.
    Ended {
        /// 128 and more: a signal.
        status: i32,
        /// Whether it was ended because of its time limit.
        timed_out: bool,
    },
    /// It could not be started.
    NotStarted(String),
    /// The time has passed.
    Rested,
    /// Somebody wants the study to stop.
    Interrupted,
}
