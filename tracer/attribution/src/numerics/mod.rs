//! Linear algebra and statistics that several rooms share. Knows nothing of energy or time.

pub(crate) mod normal_equations;
pub(crate) mod parallel;
pub(crate) mod sandwich;
pub(crate) mod search;
pub(crate) mod shares;
