//! Where the energy went.
//!
//! * `result`: what became of one domain's energy, with its row of the ledger.
//! * `rows`: what each thread and stack gets of all domains; `diagnostics`: what the reader must know;
//!   `short_loops`: which rates would show more.
//!
//! Leaves out charging (`charging`), and the sentences of diagnostics, which the report makes.

pub(crate) mod diagnostics;
pub(crate) mod result;
pub(crate) mod rows;
pub(crate) mod short_loops;
