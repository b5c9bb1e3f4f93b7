//! Stacks that are not whole: how many, and why.

use super::percent_of;
use energy_trace_model::recording::record::{PythonLoss, StackStatus, Truncation};

/// So many samples, of so many; most are this.
pub(crate) fn not_whole(samples: u64, of: u64, most: StackStatus) -> String {
    format!(
        "{} of the samples have no whole stack, mostly for this: {}; what a function took itself is right, and what \
         it took with callees is too little",
        percent_of(samples, of),
        why(most)
    )
}

/// The same in a few words.
pub(crate) fn not_whole_in_brief(samples: u64, of: u64, most: StackStatus) -> String {
    format!("{} of the samples lack callers: {}", percent_of(samples, of), why(most))
}

const fn why(status: StackStatus) -> &'static str {
    match status {
        StackStatus::Complete | StackStatus::Recovered(_) | StackStatus::Guessed(_) => "they are whole",
        StackStatus::Truncated(why) => match why {
            Truncation::NoUnwindInfo => "code without unwind information",
            Truncation::TablesNotReady => "libraries that were still being read",
            Truncation::PageFault => "memory that was not there",
            Truncation::TooDeep => "more frames than are followed",
            Truncation::DeeperThanCopy => "stacks deeper than what is copied",
            Truncation::ProcessGone => "processes that were gone at once",
            Truncation::Bits32 => "a 32-bit program",
            Truncation::Unanchored => "nothing shows where C called Python",
            Truncation::UnsupportedRule
            | Truncation::Unmapped
            | Truncation::BadFrame
            | Truncation::Unreadable => "frames that cannot be followed",
        },
        StackStatus::PythonLost(why) => match why {
            PythonLoss::NotReady => "Pythons that had just begun",
            PythonLoss::TooDeep => "more Python frames than are followed",
            PythonLoss::Ambiguous => "several interpreters in one program",
            PythonLoss::UnknownVersion
            | PythonLoss::PageFault
            | PythonLoss::BrokenChain
            | PythonLoss::Unreadable => "Python frames that cannot be read",
        },
    }
}
