//! A row of a table: a name, what it spent, and how sure that is.
//!
//! Leaves out which rows there are (`rows.rs`, `functions.rs`).

use super::calls::Kind;
use super::counts::CallsMade;
use super::fold::Spent;
use super::uncertainty::Uncertainties;
use energy_trace_certainty::Uncertainty;

/// One row: a name and what it spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it stands for.
    pub name: String,
    /// The callers of a stack's innermost frame, from the nearest on; empty where a row is no stack.
    pub callers: Vec<String>,
    /// What it spent itself and in total.
    pub spent: Spent,
    /// How sure the total energy is; `None`: not known, as of a part of a run; psys is left out unless there is nothing else.
    pub uncertainty: Option<Uncertainty>,
    /// Words for the reader: `low-samples` (under 100), `estimated` (no energy counter), `no-symbol`, `unidentified` (the run does not
    /// show how much it draws), `stolen-time` (it ran for longer than samples saw), `dram:time` (memory's energy is split by CPU time).
    pub flags: Vec<&'static str>,
    /// Whether it stands for something that is no code: `[unsampled]`.
    pub special: bool,
    /// Whether it is a function that only starts the interpreter: it calls the outermost Python frame in nearly all stacks that have it.
    pub starts: bool,
    /// What it is where rows are calls: a call, an import, something else.
    pub kind: Option<Kind>,
    /// Where the program made the call, for rows by call.
    pub site: Option<CallSite>,
    /// Calls of what it stands for, by whomever, where they were counted.
    pub calls: Option<CallsMade>,
    /// Which phase it is, where rows are phases.
    pub phase: Option<usize>,
    /// Where it lies, as far as that tells it from others of its name; empty where nothing is asked.
    pub place: String,
    /// Which other rows of the table hold it, as it stands behind the name: `  (in :87)`; empty where none does.
    pub inside: String,
}

/// The place of the program that made a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The program's file.
    pub file: String,
    /// The line; 0 when unknown.
    pub line: u32,
    /// The public name of what was called.
    pub api: String,
}

impl Row {
    pub(crate) fn new(
        name: String,
        (spent, rows): (Spent, Vec<usize>),
        uncertainties: &Uncertainties<'_>,
    ) -> Self {
        let special = name.starts_with('[') && name.ends_with(']');
        let uncertainty = uncertainties.uncertainty(&spent.total, &rows);
        let flags = uncertainties.flags(&spent.total, uncertainty.as_ref());
        Self {
            name,
            callers: Vec::new(),
            spent,
            uncertainty,
            flags,
            special,
            starts: false,
            kind: None,
            site: None,
            calls: None,
            phase: None,
            place: String::new(),
            inside: String::new(),
        }
    }
}
