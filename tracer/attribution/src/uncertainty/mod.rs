//! How certain powers and energies are.
//!
//! * `covariance`: of powers and of columns' energies.
//! * `apart`: how much paths that share a column may differ.
//! * `propagation`: from powers to the energies of owners.
//!
//! Leaves out intervals of any set of rows, which a report asks for (`certainty` in the model package), and a
//! GPU's (`gpu`).

pub(crate) mod apart;
pub(crate) mod covariance;
pub(crate) mod propagation;
