//! Ranges that a program marks: each is one of the outermost frames of a stack (`Frame::range`), in the order in which they began.
//!
//! Leaves out how they are seen (`tracer/probe/src/stacks/ranges.rs`) and their table (`tracer/report/src/ranges.rs`).

use serde::{Deserialize, Serialize};

/// Stands for ranges beyond the names and levels that are told apart.
pub const MORE_RANGES: &str = "[more ranges]";
/// Stands for a range of which nobody knows the name.
pub const UNKNOWN_RANGE: &str = "[unknown range]";
/// Stands for a range without a name.
pub const NAMELESS_RANGE: &str = "[range without a name]";
/// Stands for the attributes of a span that has none.
pub const SPAN_WITHOUT_ATTRIBUTES: &str = "[span without attributes]";
/// Stands for what is not of the trace that was chosen.
pub const NOT_IN_TRACE: &str = "[not in this trace]";
/// Stands for what runs in no range.
pub const OUTSIDE_OF_RANGES: &str = "[outside of ranges]";

/// Ranges between static probes that are told apart.
pub const MOST_RANGE_PROBES: usize = 15;

/// A finding about ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeDiagnostic {
    /// There are none.
    NotRecorded(RangesNotRecorded),
    /// Some are not told apart.
    Limited {
        /// Stacks in these.
        samples: u64,
        /// Stacks in any range.
        of: u64,
    },
    /// Of some nobody knows the name.
    Unknown {
        /// Stacks in these.
        samples: u64,
        /// Stacks in any range.
        of: u64,
        /// Threads and names that found no room, or could not be read.
        lost: u64,
    },
    /// The attributes of some spans are cut, or make no sense.
    SpansDamaged {
        /// Stacks in these.
        samples: u64,
        /// Stacks in any span.
        of: u64,
    },
}

/// Why there are no ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangesNotRecorded {
    /// The program had begun when the recording did.
    Attached,
    /// The user has a tool of his own in a place that there is for one.
    Taken {
        /// The variable that names it.
        variable: String,
        /// What it names.
        library: String,
    },
    /// The library cannot be put in place, or not be listened to.
    NoLibrary {
        /// The system's reason.
        error: String,
    },
    /// No sample was taken in a range.
    NotMarked,
    /// No file of the program has these static probes (1.6).
    ProbesNotFound {
        /// `PROVIDER:NAME`.
        names: Vec<String>,
    },
    /// Static probes could not be probed (1.6).
    ProbesFailed {
        /// The system's reason.
        error: String,
    },
}

impl RangeDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotRecorded(_) => "ranges-not-recorded",
            Self::Limited { .. } => "ranges-limited",
            Self::Unknown { .. } => "ranges-unknown",
            Self::SpansDamaged { .. } => "spans-damaged",
        }
    }
}
