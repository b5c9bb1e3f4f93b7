//! `energy-trace agent`, in the finisher's process: a user that nobody else has, without privileges.
//!
//! ```text
//!  recorder ──pipe──► attribution of a window ──► totals ──► page ──► listener ◄── Prometheus
//!                     whose: /proc/PID/cgroup
//! ```
//!
//! * `watcher`: takes the recording from the pipe, attributes window by window, makes the page.
//! * `windows`: when they end; `groups`: whose each process is; `cost`: what the agent itself takes.
//! * `listener`: who may ask for the page, and how long that may take; `sandbox`: what this process can do no more.
//!
//! Leaves out recording (`session`), what the page says (`report::agent_page`), and everything that would be sent elsewhere.

mod cost;
mod groups;
mod listener;
mod sandbox;
mod watcher;
mod windows;

pub(crate) use sandbox::become_nobody;
pub(crate) use watcher::Agent;
