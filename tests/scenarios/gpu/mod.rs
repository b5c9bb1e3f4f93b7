//! A simulated GPU on a virtual clock: what a host launches, what a late meter shows of it, and what attribution made of both.
//!
//! Shared by tests and by `cargo xtask bench gpu-accuracy`. Leaves out the simulated driver (`tests/simgpu`), which is for live tests.

pub mod outcome;
pub mod recording;
pub mod training;
pub mod world;
