//! Recordings made by hand, shared with the offline tests.

#[path = "../../../../tests/offline/report/recording_builder.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod recording_builder;
#[path = "../../../../tests/offline/report/training_runs.rs"]
pub(crate) mod training_runs;
