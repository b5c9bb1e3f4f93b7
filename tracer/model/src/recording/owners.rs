//! Whose a file or a program is, and what was found about budgets that owners share.
//!
//! Leaves out who finds it out (`tracer/foreign/src/files/owner.rs`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who answers for a file or a process: budgets are counted by owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// Root alone.
    #[default]
    Root,
    /// This user.
    User(u32),
    /// Several users may have written it.
    Several,
}

impl Owner {
    /// Of a user's number.
    pub const fn of_user(uid: u32) -> Self {
        if uid == 0 { Self::Root } else { Self::User(uid) }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Several => f.write_str("several users"),
        }
    }
}

/// How many of something of each owner.
pub type OfOwners = Vec<(Owner, u64)>;

/// A finding about what owners share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerDiagnostic {
    /// Files were not kept open for names, as there was room for this many.
    FilesNotKept {
        /// Whose, and how many.
        files: OfOwners,
        /// How many may be open at once.
        most: u64,
    },
    /// Files were not looked into any more, after others of the same owner had cost too much.
    FilesRefused {
        /// Whose, and how many questions were not asked.
        questions: OfOwners,
    },
    /// The process that starts those that read files was ended by somebody.
    ReaderLost {
        /// How often.
        times: u64,
        /// Whether it was started again each time.
        again: bool,
    },
    /// Names were longer than is kept.
    NamesCut {
        /// How many.
        names: u64,
        /// Bytes that are kept of a name.
        longest: u64,
    },
    /// Events came faster than they could be taken in, from owners who had more of them under way than was left for all others.
    EventsRefused {
        /// Whose, and how many were lost for that.
        events: OfOwners,
    },
    /// Programs of one owner had more different stacks than there is room for.
    StacksCut {
        /// Samples of which the innermost function alone is kept.
        samples: u64,
        /// Stacks of one owner for which there is room.
        most: u64,
    },
}

impl OwnerDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::FilesNotKept { .. } => "files-not-kept",
            Self::FilesRefused { .. } => "files-refused",
            Self::ReaderLost { .. } => "file-reader-lost",
            Self::NamesCut { .. } => "names-cut",
            Self::EventsRefused { .. } => "events-refused",
            Self::StacksCut { .. } => "stacks-cut",
        }
    }
}
