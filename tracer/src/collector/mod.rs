//! Profiles on their way to an OpenTelemetry collector: what waits and what an answer means (`outbox`), and
//! one POST (`post`).
//!
//! Leaves out what is sent (`export --format otlp`).

mod outbox;
mod post;

pub use outbox::{Answer, Next, Outbox, Refused};
pub use post::{Collector, Endpoint};
