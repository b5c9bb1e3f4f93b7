//! Where the energy went.
//!
//! * `basis`: what all domains share; `metered`: what a domain's counter or model says; `busy_baseline`: its idle power where the machine was busy before.
//! * `powers`: what its functions draw; `charges`: who is charged with it; `account`: its row of the ledger.
//! * `rows`: what each thread and stack gets of all domains; `diagnostics`: what the reader must know.
//!
//! Leaves out the sentences of diagnostics, which the report makes.

pub(crate) mod account;
pub(crate) mod basis;
mod busy_baseline;
pub(crate) mod charges;
pub(crate) mod diagnostics;
mod metered;
mod powers;
pub(crate) mod rows;
