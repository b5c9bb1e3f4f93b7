//! What is printed of a profile. Leaves out whether its numbers are right (`attribution`).

mod agent_dashboard;
mod apart;
mod counts;
mod debug_frame;
mod difference;
mod every_output;
mod greenlight;
mod names;
mod outputs;
mod recording_builder;
mod summary;
mod training_runs;
mod warm;
