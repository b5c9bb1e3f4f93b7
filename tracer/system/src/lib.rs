//! This machine and this process: the clock, facts about the host, what this process may do, and the processes of a recording.
//!
//! `clock` reads the one clock of all times, `host` has facts about the machine, `privileges` what the kernel lets this process do, `roles` how a
//! process is made that may do less and how it is spoken with, `threads` work on a thread of its own, `allocator` what memory is given back,
//! `arch` what depends on the processor.
//!
//! ```
//! use energy_trace_system::clock;
//!
//! let before = clock::now();
//! assert!(clock::now() >= before);
//! ```
//!
//! Leaves out everything that measures (packages `power` and `probe`) and what is known of targets (`foreign`).

pub mod allocator;
pub mod arch;
pub mod clock;
pub mod host;
pub mod privileges;
pub mod roles;
pub mod threads;
