//! What attribution found out about how sure energy is, kept so that it can be asked of any set of rows (package `certainty`, which has the formulas).
//!
//! Leaves out the statistics.

use super::validity::ValidityChecks;
use crate::recording::record::DomainClass;
use std::collections::BTreeMap;

/// What is known about one domain. All lists over rows are in the order of `Profile::rows`, from `first_row` on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainCertainty {
    /// Its class; `None` in an empty one.
    pub class: Option<DomainClass>,
    /// The row at which the lists over rows begin; rows before it have nothing of the domain.
    pub first_row: usize,
    /// Energy of each row, by the columns that it is in.
    pub energy: Vec<Vec<InColumn>>,
    /// CPU time of each row on the domain's CPUs, in seconds.
    pub seconds: Vec<f64>,
    /// Variance of each row's energy by sampling, in J².
    pub variance: Vec<f64>,
    /// Of each row, what it got in equal parts with other calls.
    pub parts: Vec<Vec<Part>>,
    /// Sum of all rows' variances.
    pub all_variance: f64,
    /// Each column's doubts.
    pub columns: Vec<Column>,
    /// The call paths that share each column; empty where each column is one.
    pub pools: Vec<Pool>,
    /// Joules of each innermost function in each column.
    pub functions: BTreeMap<(usize, Function), f64>,
    /// Variance of call paths' powers in parts of the square of their mean, as the run shows it; `None`: it does not.
    pub path_variance: Option<f64>,
    /// Relative covariance of the columns' energies, row by row.
    pub relative: Vec<f64>,
    /// Standard deviation of the idle energy, in joules.
    pub idle_joules: f64,
    /// All that the domain's counter measured, in joules; `None`: not known.
    pub measured_joules: Option<f64>,
    /// CPU seconds of everybody on the domain's CPUs.
    pub all_seconds: f64,
    /// What became of the learned watts; `None` where there was nothing to learn: a model's energy, a GPU's, one function alone, or too few
    /// readings.
    pub weights: Option<Weights>,
}

/// What a row has of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InColumn {
    /// Which.
    pub column: usize,
    /// Joules.
    pub joules: f64,
    /// Its part of the column's time, times that of its call path: summed over a path's rows, the square of the path's part.
    pub square: f64,
    /// Its innermost function.
    pub function: Function,
}

/// Number of an innermost function, the same wherever it is called.
pub type Function = u32;

/// Call paths in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pool {
    /// Their energy in joules.
    pub joules: f64,
    /// Sum of the squares of their parts of the time (Herfindahl's index): 1 for one path, 1/n for n of the same size.
    pub square: f64,
    /// Sum of the squares of the energies of innermost functions (J²).
    pub functions: f64,
    /// How many samples saw them; 0 where these do not divide the energy.
    pub samples: f64,
}

/// Energy that several calls have in equal parts, because nothing tells which of them asked for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Which: the same number in all rows that have a part of it.
    pub of: u32,
    /// What the row has of it, and all of it, in joules.
    pub joules: f64,
    /// All of it.
    pub whole: f64,
    /// Variance of all of it by sampling, in J².
    pub variance: f64,
}

/// What became of a domain's learned watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// What the validity checks found.
    pub validity: ValidityChecks,
    /// Whether they split the energy: they passed all checks, and the reader did not choose otherwise.
    pub used: bool,
    /// η: two busy hardware threads of one core were taken to draw 1 + η times what one does; `None` where the machine names none that share a
    /// core, or none were busy together.
    pub siblings: Option<f64>,
    /// α: power was taken to go with the CPU's clock to this power, as the run showed; 0 where clocks were recorded and did not help, `None` where
    /// they are not known or do not differ.
    pub frequency: Option<f64>,
}

/// How sure a column's watts are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Whether the run shows its watts.
    pub identified: bool,
    /// Least and most energy that any watts that cannot be ruled out give it, as parts of what it was given.
    pub bounds: (f64, f64),
    /// Those that share a sum with it, which the run shows better than who has what of it.
    pub group: Option<ColumnGroup>,
}

/// Columns that cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnGroup {
    /// The same for all of them.
    pub number: usize,
    /// Whether the run shows their sum.
    pub identified: bool,
    /// How far their sum may be off, as a part of it.
    pub reach: f64,
}

/// What is known about all domains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certainty {
    /// One entry a domain, in the order of the ledger.
    pub domains: Vec<DomainCertainty>,
}
