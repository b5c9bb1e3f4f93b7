//! Where energy went by domain and process, for those who need neither threads nor stacks.
//!
//! Leaves out how it comes about (`energy-trace-attribution`), and whose the processes are.

use super::diagnostics::GapReason;
use super::tables::LedgerRow;
use crate::ids::ProcessKey;
use crate::units::MicroJoules;
use std::collections::BTreeMap;

/// Where one domain's energy went. Always, to the microjoule: `row.target = Σ of_process`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainByProcess {
    /// Its row of the ledger.
    pub row: LedgerRow,
    /// What is charged to each process.
    pub of_process: BTreeMap<ProcessKey, MicroJoules>,
    /// For so long the counter (or the model) says what was drawn, in nanoseconds.
    pub covered_ns: u64,
    /// Of the rest, why it does not, in nanoseconds.
    pub missing_ns: BTreeMap<GapReason, u64>,
    /// Whether learned powers divided it, and not CPU time alone.
    pub by_power: bool,
}
