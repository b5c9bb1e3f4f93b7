//! How certain powers and energies are.
//!
//! * `resampling`: covariance of the powers, by a block bootstrap; `derivative`: how the split depends on them.
//! * `aliasing`: samples in step with the program.
//! * `propagation`: from powers to the energies of owners.
//!
//! Leaves out intervals of any set of rows, which a report asks for (`certainty` in the model package).

pub(crate) mod aliasing;
pub(crate) mod derivative;
pub(crate) mod propagation;
pub(crate) mod resampling;
