//! Counters of work, read while the command runs by a process that is the invoking user (of an agent, a user that nobody else has), without
//! privileges (`et-work`).
//!
//! ```text
//!  recorder                     et-work
//!  fork ───────────────────►    becomes the user for good
//!  Start ──────────────────►    a thread for each file and page: a look ten times a second
//!  ◄───────────── readings      batches of (which, when, number or why there is none)
//!  Stop ───────────────────►    a last look of those that answer at once
//!  ◄───────────────── Done
//! ```
//!
//! What is read may be anything: a FIFO, a file system that never answers. It keeps its own thread from going on, and nobody else.
//!
//! * `client`: the recorder's side; `role`: the process; `message`: what they say to each other.
//! * `forward`: what the command prints on its way; `watch`: where it comes from for whoever counts; `lines`: numbers in it.
//! * `http`: a page of metrics; `exposition`: a metric on it; `series`: its series from look to look.
//! * `calls`: how often functions were called.
//! * `file`: a number in a file; `number`: a number in a text; `telling`: which looks are worth a record.
//!
//! Leaves out how calls are counted (`probe`), and what units are worth in joules (`report::work`).

mod calls;
mod client;
mod exposition;
mod file;
mod forward;
mod http;
mod lines;
mod message;
mod number;
mod role;
mod series;
mod telling;
mod watch;

pub use client::{WorkReader, WorkReadings};
pub(crate) use exposition::Metric;
pub(crate) use forward::Forward;
pub(crate) use http::check;
pub(crate) use lines::expression;
