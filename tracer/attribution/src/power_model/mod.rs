//! How much power each function draws, learned from the run itself.
//!
//! * `classes`: functions that share one weight; `design`: expected time of each class in each window.
//! * `learn`: the regression; `validity`: whether its result may split energy.
//! * `counter_delay`: how far behind the counter is on average; `drift`: when all power rose or fell; `uncore`: the shared parts of a
//!   socket; `stationary_windows`: windows in which no thread changed its function.
//!
//! Leaves out how certain the result is (`uncertainty`) and the split itself (`split`).

pub(crate) mod classes;
pub(crate) mod counter_delay;
pub(crate) mod counter_edges;
pub(crate) mod design;
pub(crate) mod drift;
pub(crate) mod evidence;
pub(crate) mod fit;
pub(crate) mod learn;
pub(crate) mod refine;
pub(crate) mod stationary_windows;
pub(crate) mod uncore;
pub(crate) mod validity;
