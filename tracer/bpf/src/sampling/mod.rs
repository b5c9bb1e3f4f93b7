//! The sampler: which event drives it (`event`), how often (`rate`), opening it on each CPU (`sampler`, `tick`), and seeing to it while
//! it runs (`watch`).
//!
//! Leaves out what is done with samples (`collect/`).

pub mod cpus;
pub mod event;
pub mod rate;
pub mod sampler;
mod tick;
pub mod watch;

pub use cpus::online_cpus;
pub use rate::{Rate, fix as rate_fix, read_limit_at, read_ticks};
