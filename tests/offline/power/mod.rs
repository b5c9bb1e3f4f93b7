//! Power sources as files. Leaves out those that have to be simulated (`tests/live/power.rs`).

mod bmc_log;
mod machines;
mod model_watts;
