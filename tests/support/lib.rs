//! Simulated power hardware and the support code of the integration tests.
//!
//! `powercap` is a RAPL tree on FUSE whose counters are what the workload's threads really spent; `declare` is how a workload tells it;
//! `interpreters` are the CPythons of this machine; `process` and `report` start programs and read what they wrote; `gpu` is a whole simulated GPU with its libraries and workloads;
//! `work` is what native workloads compute and `random` what simulated worlds draw from. Leaves out every
//! line of energy-trace: the truth must not come from the code under test.

pub mod breadth;
#[path = "../../xtask/src/cache.rs"]
mod cache;
pub mod control_group;
pub mod declare;
pub mod gpu;
pub mod interpreters;
pub mod place;
pub mod powercap;
pub mod process;
pub mod processes;
pub mod random;
pub mod report;
pub mod work;
