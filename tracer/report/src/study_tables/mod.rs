//! The tables and data sets of a study: `table` for a terminal, `markup` for pages and papers, `dataset` with a row a run.
//!
//! Leaves out what is in them (`study`), and where they go.

pub mod dataset;
pub mod markup;
mod numbers;
pub mod table;
#[cfg(test)]
mod tests;
