//! The accuracy benchmark's parts, shared by the benchmark and by the test that keeps its table true.

pub(crate) mod asks;
pub(crate) mod engine;
pub(crate) mod measure;
pub(crate) mod recording;
pub(crate) mod scenarios;
pub(crate) mod table;
