//! Calls that are counted on request: probes on functions of machine code, and what they counted.
//!
//! `names` says which functions, `counting` puts the probes in place and sends what they counted, `units` tells it over time, `python` what was counted in interpreters. Leaves out what a call costs in joules
//! (the report).

mod counting;
mod names;
mod python;
mod units;

pub(super) use counting::{Counting, ToCount};
pub use names::{CountName, count_names_of, is_counted_by_default, python_names};
pub(super) use python::{OfPython, send_python_counts};
pub use units::UnitsOfCalls;
