//! Calls that were counted, on request.
//!
//! Leaves out how (`tracer/probe/src/count`) and what a call costs in joules (`tracer/report/src/counts.rs`).

use crate::ids::FrameId;
use serde::{Deserialize, Serialize};

/// How often a function was called, by all processes of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCount {
    /// A frame of the function.
    pub frame: FrameId,
    /// Calls.
    pub calls: u64,
    /// Of these, those within another call of it by the same thread.
    pub nested: u64,
    /// How long those that are not nested took; `None` where only the begin of a call is seen.
    pub times: Option<CallTimes>,
}

/// How long calls took by the clock, waiting included, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// The median.
    pub p50_ns: u64,
    /// One call in twenty took longer.
    pub p95_ns: u64,
    /// One in a hundred did.
    pub p99_ns: u64,
}

/// A finding about calls that are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallDiagnostic {
    /// What counting cost, by what one call costs that the recorder makes itself.
    Cost {
        /// Calls of machine code.
        calls: u64,
        /// Of these, calls of functions on whose first instruction the kernel has to step.
        stepped: u64,
        /// Nanoseconds that counting a call takes.
        call_ns: u64,
        /// The same where the kernel has to step.
        stepped_ns: u64,
        /// Functions that are probed.
        functions: u64,
    },
    /// Calls of machine code are not counted.
    NotCounted {
        /// The system's reason.
        error: String,
    },
    /// No function is called so.
    NotFound {
        /// What was asked for.
        names: Vec<String>,
    },
    /// More functions match than can be counted.
    TooMany {
        /// The library in which the others are.
        library: String,
        /// How many can be.
        most: u64,
    },
    /// What counting calls of Python functions cost, by what the module that counts measured itself.
    PythonCost {
        /// Calls.
        calls: u64,
        /// Nanoseconds that counting a call takes.
        call_ns: u64,
        /// Functions that were called.
        functions: u64,
    },
    /// Calls of Python functions are not counted.
    PythonNotCounted(PythonNotCounted),
    /// A library was probed after it could be used: earlier calls are not counted.
    Late {
        /// The library.
        library: String,
        /// The process that has it.
        pid: u32,
        /// Nanoseconds since that was noticed.
        late_ns: u64,
    },
    /// What looking at arguments cost, and what was left out.
    InputSizes {
        /// Calls whose arguments were looked at.
        looks: u64,
        /// Of these, those of which nothing is kept: they had other sizes than the first different ones of their function and line.
        left_out: u64,
        /// CPU time that the program spent on it, in nanoseconds.
        cost_ns: u64,
    },
    /// Looking at arguments had had its share of the program's CPU time.
    InputSizesLimited {
        /// Calls that were passed over.
        passed: u64,
        /// Functions of which no call was looked at.
        unseen: u64,
    },
}

impl CallDiagnostic {
    /// Nanoseconds of the program's CPU time that counting took; 0 where it says something else.
    pub fn cost_ns(&self) -> u64 {
        match self {
            Self::Cost { calls, stepped, call_ns, stepped_ns, .. } => {
                let emulated = calls.saturating_sub(*stepped).saturating_mul(*call_ns);
                emulated.saturating_add(stepped.saturating_mul(*stepped_ns))
            }
            Self::PythonCost { calls, call_ns, .. } => calls.saturating_mul(*call_ns),
            _ => 0,
        }
    }

    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Cost { .. } => "count-cost",
            Self::NotCounted { .. } => "calls-not-counted",
            Self::NotFound { .. } => "count-not-found",
            Self::TooMany { .. } => "count-limited",
            Self::Late { .. } => "count-late",
            Self::InputSizes { .. } => "input-sizes-cost",
            Self::InputSizesLimited { .. } => "input-sizes-limited",
            Self::PythonCost { .. } => "count-python-cost",
            Self::PythonNotCounted(_) => "python-calls-not-counted",
        }
    }
}

/// Why calls of Python functions are not counted, or not all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PythonNotCounted {
    /// The interpreter has no way to count them: it is older than 3.12.
    Version {
        /// Its version.
        version: String,
    },
    /// The program had begun when the recording did.
    Attached,
    /// Processes that began to count ended without telling: killed, or by `os._exit` or `exec`.
    Untold {
        /// How many.
        processes: u64,
    },
    /// Another tool has taken the place that interpreters have for one.
    Taken,
    /// The module that counts cannot be put in place.
    NoModule {
        /// The system's reason.
        error: String,
    },
    /// No interpreter loaded the module.
    NotLoaded,
}
