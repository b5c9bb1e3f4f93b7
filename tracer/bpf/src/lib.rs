//! The BPF object: loading it, its maps and its ring buffers, the events in them, and what makes it sample.
//!
//! ```
//! use energy_trace_bpf::sampling::event::{EventChoice, Machine, decide};
//! use energy_trace_model::recording::record::SampleEvent;
//!
//! let server = Machine { is_virtual: false, has_pmu: true };
//! assert_eq!(decide(EventChoice::Auto, server).event, SampleEvent::Cycles);
//! let guest = Machine { is_virtual: true, ..server };
//! assert_eq!(decide(EventChoice::Auto, guest).event, SampleEvent::CpuClock);
//! ```
//!
//! `object` loads and attaches, with what `settings` says of the running kernel (`btf`); `row_maps` and `process_maps` are written by user
//! space; `rings` are read, in `time_order`, and `decode` makes events of their bytes; `call_counts` counts calls, `totals` takes out CPU time
//! that is summed, `ranges` names ranges; `sampling`
//! opens the events that sample, on CPUs that come and go; `config` says what a trace is asked to do. The only package that depends on `aya`.
//! Leaves out what events mean (package `probe`).

mod arch;
mod bpf_call;
pub mod btf;
pub mod call_counts;
pub mod config;
pub mod decode;
pub mod error;
pub mod log;
pub mod object;
pub mod per_cpu;
pub mod process_maps;
pub mod ranges;
pub mod rings;
pub mod row_maps;
pub mod sampling;
mod settings;
mod task_times;
mod time_order;
pub mod totals;
pub mod uprobe_multi;

pub use btf::{BtfError, KernelTypes};
pub use error::ProbeError;
pub use object::LoadedProgram;
