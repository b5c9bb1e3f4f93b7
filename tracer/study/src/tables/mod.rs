//! The tables and data sets of a study: `table` for a terminal, `markup` for pages and papers, `layouts` as published studies have them,
//! `page` with pictures, `dataset` with a row a run.
//!
//! `columns` are those of data sets; `sweep` is about growth with a size; `sheet` is what every layout is. Leaves out what is in them (`study`), and where they go.

mod columns;
mod configurations;
pub mod dataset;
mod escaped;
pub mod layouts;
pub mod markup;
mod numbers;
pub mod page;
mod plots;
mod sheet;
mod sweep;
pub mod table;
#[cfg(test)]
mod tests;
