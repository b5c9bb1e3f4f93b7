//! How certain powers and energies are.
//!
//! * `covariance`: of powers and of columns' energies.
//! * `path_variance`: how much the powers of call paths differ.
//! * `propagation`: from powers to the energies of owners.
//!
//! Leaves out intervals of any set of rows, which a report asks for (`certainty` in the model package), and a
//! GPU's (`gpu`).

pub(crate) mod covariance;
pub(crate) mod path_variance;
pub(crate) mod propagation;
