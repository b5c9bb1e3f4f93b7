//! Phases of a run: stretches that were told apart by what ran in them. No program marked them.
//!
//! Leaves out how they are found (`energy_trace_report::phases`).

use super::stretches::Span;
use super::tables::EnergyByClass;
use crate::recording::record::WorkUnits;

/// All phases, which together are the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phases {
    /// The step in which limits are known, in nanoseconds.
    pub step_ns: u64,
    /// What is shorter is no phase of its own.
    pub shortest_ns: u64,
    /// In order of appearance.
    pub found: Vec<Phase>,
}

/// One phase: stretches of one mix of functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// From when to when, in order of time.
    pub stretches: Vec<Span>,
    /// The target's energy in them.
    pub energy: EnergyByClass,
    /// The same by CPU time alone.
    pub by_time: EnergyByClass,
    /// CPU time in nanoseconds.
    pub time_ns: u64,
    /// Samples.
    pub samples: u64,
    /// What was done in it of the unit that a profile is shown by, where it is: its energy is that of the time in which that was done.
    pub units: Option<WorkUnits>,
    /// What runs more in it than elsewhere, most so first; less, where nothing does.
    pub told_by: Vec<ToldBy>,
}

/// A function that has more of one phase than of the rest of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldBy {
    /// Its name.
    pub function: String,
    /// The part of the phase's energy that it has with all that it calls, from 0 to 1.
    pub here: f64,
    /// The same of everything else.
    pub elsewhere: f64,
}
