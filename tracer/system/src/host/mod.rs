//! Facts about this machine that several rooms need, each read below a root that can be given: the kernel's release and pid namespace, the
//! CPU's model, sockets and cores; whether it is a guest; the limits of this process, and how urgent its threads are.
//!
//! Leaves out everything that measures (`power`, `probe`) and what this process may do (`privileges`).

pub mod cpu_model;
pub mod firmware;
pub mod kernel;
pub mod limits;
pub mod open_files;
pub mod own_limit;
pub mod process_times;
pub mod topology;
pub mod urgency;
