//! What is asked of a file about its functions, and the answer.
//!
//! Leaves out finding it (`places.rs`).

use energy_trace_model::ids::BuildId;
use energy_trace_model::recording::record::Name;
use energy_trace_system::roles::room::list;
use serde::{Deserialize, Serialize};

/// What was found for a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function's name, with file and line where they were asked for and are known.
    pub name: Option<Name>,
    /// What the compiler put into it.
    #[serde(deserialize_with = "list")]
    pub inlined: Vec<Name>,
    /// Where a function without a name begins, as a file offset, by its unwind information.
    pub start: Option<u64>,
}

/// How much is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Source lines and inlined functions, from debug information.
    pub inlines: bool,
    /// Of the file itself alone: whoever has the names may have no right to read what else is opened for them.
    pub alone: bool,
}

/// What proves that a debug file belongs to a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// It has this build id.
    BuildId(BuildId),
    /// The CRC-32 of the whole file is this.
    Crc32(u32),
}
