//! Linear algebra and statistics that several rooms share. Knows nothing of energy or time.

pub mod normal_equations;
pub mod parallel;
pub mod sandwich;
pub mod search;
pub mod shares;
