//! `energy-trace agent`, in the finisher's process: a user that nobody else has, without privileges.
//!
//! ```text
//!  recorder ──pipe──► attribution of a window ──► totals ──► page ──► listener ◄── Prometheus
//!                     whose: /proc/PID/cgroup └──► outlets ──► spool (Parquet)
//!                                                         └──► sender ──► collector (OTLP)
//! ```
//!
//! * `watcher`: takes the recording from the pipe, attributes window by window, makes the page.
//! * `outlets`: what else a window becomes; `spool`: files of a folder; `sender`: messages to a collector.
//! * `windows`: when they end; `groups`: whose each process is; `cost`: what the agent itself takes.
//! * `listener`: who may ask for the page, and how long that may take; `sandbox`: what this process can do no more.
//!
//! Leaves out recording (`session`), what the page says (`report::agent_page`), and what tables and profiles
//! hold (`export`).

mod cost;
mod groups;
mod listener;
mod outlets;
mod sandbox;
mod sender;
mod spool;
mod watcher;
mod windows;

pub(crate) use cost::Cost;
pub(crate) use sandbox::become_user;
pub(crate) use watcher::Agent;
