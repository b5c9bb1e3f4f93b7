//! What a reader sees: joules as a table, JSON, CSV, folded stacks or a flame graph. One file a format.
//!
//! Everything here is computed from a `Profile` and the options of the format alone and leaves through a writer. No file is opened, no clock is
//! read, no terminal is asked: width and colour come in the options.
//!
//! ```
//! use energy_trace_model::profile::Profile;
//! use energy_trace_report::{DomainChoice, table};
//!
//! assert_eq!("dram".parse::<DomainChoice>().unwrap().to_string(), "dram");
//! let mut out = Vec::new();
//! table::write(&mut out, &Profile::default(), &table::TableOptions::default()).unwrap();
//! assert!(!out.is_empty());
//! ```
//!
//! The formats share `fold` (stacks into rows, each occurrence counted once), `diagnostics` (what the reader should know before believing a
//! number), and packages `names` (what a frame is called, how a name is written that would move the terminal) and `sentences` (the words for every
//! fact that is a type).

use energy_trace_model::recording::record::DomainClass;
use std::fmt;
use std::str::FromStr;

pub mod agent_page;
pub mod agent_totals;
mod agent_work;
pub mod apart;
pub mod budget_line;
pub mod budgets;
pub mod carbon;
pub mod csv;
pub mod diff;
mod diff_doubts;
pub mod diff_flame;
pub mod diff_json;
pub mod diff_parts;
pub mod diff_table;
pub mod flamegraph;
pub mod fold;
pub mod folded;
pub mod frame_stages;
pub mod functions;
pub mod html;
pub mod json;
pub mod markdown;
mod missing_unwind_info;
pub mod own_rows;
pub mod per_work;
pub mod phases;
mod ranges;
mod rates;
pub mod rest;
pub mod row;
pub mod rows;
pub mod summary;
pub mod table;
pub mod top;
mod top_work;
pub mod work;

pub mod call_rows;
pub mod calls;
pub mod counts;
pub mod csv_cells;
mod diagnostics;
mod flame_colors;
mod flame_header;
mod flame_names;
mod flame_page;
mod flame_rectangles;
mod flame_titles;
mod inside;
mod jit_code;
mod json_calls;
mod json_rows;
mod json_thermal;
mod json_work;
mod meters;
pub mod missing;
mod named;
mod outer_line;
pub mod run;
mod sampling_error;
pub mod summary_rows;
pub mod table_cells;
pub mod table_details;
pub mod thermal;
mod uncertainty;

pub use call_rows::Level;
pub use calls::Kind;
pub use counts::CallsMade;
pub use row::CallSite;

/// What one row of a table stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum By {
    /// A function, or a framework's public call where the function stands for one.
    #[default]
    Function,
    /// A Python function, with all native code that it calls.
    Python,
    /// A line of a function, where lines are known (native ones with `record --inlines`).
    Line,
    /// A whole stack.
    Stack,
    /// Calls of installed packages by their public names: `torch.autograd.backward`, `optimizer.step`, …
    Api,
    /// A line of the program and what it calls.
    Call,
    /// A library, a Python package, or the kernel.
    Library,
    /// A thread.
    Thread,
    /// A process.
    Process,
    /// A range that the program marks.
    Range,
    /// Stretches of the run that were told apart by what ran in them.
    Phase,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Function,
        Self::Python,
        Self::Line,
        Self::Stack,
        Self::Api,
        Self::Call,
        Self::Library,
        Self::Thread,
        Self::Process,
        Self::Range,
        Self::Phase,
    ];

    /// Its word in JSON, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Python => "python",
            Self::Line => "line",
            Self::Stack => "stack",
            Self::Api => "api",
            Self::Call => "call",
            Self::Library => "library",
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Range => "range",
            Self::Phase => "phase",
        }
    }
}

/// Which energy is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DomainChoice {
    /// Package, DRAM and GPU together: the classes that add up.
    #[default]
    Total,
    /// One class of domain.
    Class(DomainClass),
}

impl DomainChoice {
    /// Whether a domain of this class is part of the choice.
    pub fn includes(self, class: DomainClass) -> bool {
        match self {
            Self::Total => class.adds_up(),
            Self::Class(chosen) => chosen == class,
        }
    }
}

impl fmt::Display for DomainChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Total => "total",
            Self::Class(class) => class.name(),
        })
    }
}

impl FromStr for DomainChoice {
    type Err = ReportError;

    fn from_str(text: &str) -> Result<Self, ReportError> {
        if text == "total" {
            return Ok(Self::Total);
        }
        let class = DomainClass::ALL.into_iter().find(|class| class.name() == text);
        class.map(Self::Class).ok_or_else(|| ReportError::UnknownDomain(text.to_owned()))
    }
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The writer refused.
    #[error("cannot write the report: {0}")]
    Write(#[from] std::io::Error),
    /// There is nothing to draw.
    #[error(
        "no energy to draw in domain `{domain}`: {}; `energy-trace report` shows what the recording holds",
        if *.measured { "no stack was charged with any" } else { "the recording has no such domain" }
    )]
    NoEnergy {
        /// The domain asked for.
        domain: DomainChoice,
        /// Whether the recording has a domain of this kind at all.
        measured: bool,
    },
    /// A domain name that does not exist.
    #[error("unknown domain `{0}`: use total, package, dram, gpu or psys")]
    UnknownDomain(String),
    /// The flame graph came out of its library in a shape that is not known.
    #[error("cannot put joules into the flame graph: {0}")]
    Svg(String),
}

#[cfg(test)]
mod tests;
