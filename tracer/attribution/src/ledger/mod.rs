//! Where the energy went: `account` is one domain's, `rows` those of threads and stacks, `diagnostics` what the reader must know.

pub(crate) mod account;
pub(crate) mod diagnostics;
pub(crate) mod rows;
