//! What the recorder and `et-work` say to each other.
//!
//! Leaves out the socket between them (`roles::channel`).

use energy_trace_model::ids::WorkId;
use energy_trace_model::recording::record::WorkReading;
use serde::{Deserialize, Serialize};

/// Most bytes of a message.
pub(super) const MOST: usize = 1 << 16;
/// Most readings of a message.
pub(super) const BATCH: usize = 256;

/// What the recorder asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Begin to read, with files: what the command prints, numbers of calls of machine code, and where those of Python are told.
    Start([bool; 3]),
    /// Look once more, and end.
    Stop,
}

/// What `et-work` says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// What was found.
    Readings(Vec<(WorkId, WorkReading)>),
    /// That was all.
    Done,
}
