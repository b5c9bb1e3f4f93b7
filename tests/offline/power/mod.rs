//! Power sources as files. Leaves out those that have to be simulated (`tests/live/power.rs`).

mod machines;
