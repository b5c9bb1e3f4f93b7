//! Charges a domain's energy to those who used it, from its readings to its result (`ledger::result`).
//!
//! * `basis`: what all domains share; `metering`: what a domain's counter or model says; `busy_baseline`: its
//!   idle power where the machine was busy before.
//! * `by_cpu_time`, `by_launches`: who is charged; `domain`: all of it in order.
//!
//! Leaves out the estimators and the splits themselves (`power_model`, `split`, `gpu`).

pub(crate) mod basis;
mod busy_baseline;
mod by_cpu_time;
mod by_launches;
pub(crate) mod domain;
mod metering;
