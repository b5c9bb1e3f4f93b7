//! The accuracy benchmark's parts, shared by the benchmark and by the test that keeps its table true.

pub mod asks;
pub mod engine;
pub mod measure;
pub mod recording;
pub mod scenarios;
pub mod summed;
pub mod table;
