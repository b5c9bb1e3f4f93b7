//! Linear algebra and statistics that several rooms share. Knows nothing of energy or time.

pub use energy_trace_model::parallel;

pub mod normal_equations;
pub mod sandwich;
pub mod search;
pub mod shares;
