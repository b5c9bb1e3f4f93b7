//! Can this machine record? Looks at everything that a recording needs, and says how to fix what is missing.
//!
//! A finding that fails prevents recording; a warning makes its result worse. Changes nothing on the machine: the BPF programs are
//! loaded for a trial and dropped. Leaves out repairing anything.

mod examine;
mod file_readers;
mod finding;
mod gpu_kernel_tier;
mod interpreters;
mod kernel;
mod power;
mod show;

pub use examine::examine;
pub use finding::{DoctorPlan, Energy, Finding, Level, can_record};
pub use power::examine as examine_power;
pub use show::{write_json, write_text};
