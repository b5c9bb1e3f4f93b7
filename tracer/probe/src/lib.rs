//! The probes: what the BPF programs send (package `bpf`) becomes records.
//!
//! Each room knows those before it, and none after:
//!
//! ```text
//! tables/     unwind tables of mapped files: made once a file, shared, dropped when room is needed
//! processes/  who was seen: processes, threads, their mappings, their interpreter
//! stacks/     from addresses and code objects to numbered frames and stacks
//! gpu/        calls of GPU libraries, and what is told of kernels
//! count/      calls that are counted on request
//! collect/    events become records, on the reader's thread
//! ```
//!
//! ```
//! let names = energy_trace_probe::count_names_of(&["TF_SessionRun@libtensorflow_cc".to_owned()]);
//! assert_eq!(names[0].library.as_deref(), Some("libtensorflow_cc"));
//! ```
//!
//! Data leaves as `Record`s on a channel; nothing else does. Leaves out power and what records mean.

mod activity;
mod arch;
mod collect;
mod count;
mod gpu;
mod mapped_files;
mod priority;
mod processes;
mod prologue;
mod range_library;
mod range_probes;
mod records;
mod stacks;
mod tables;
mod tracer;

pub use count::{CountName, UnitsOfCalls, count_names_of, is_counted_by_default, python_names};
pub use energy_trace_bpf::config::{
    GroupId, LiveCounts, LiveNaming, OtherProcess, TraceAccount, TraceConfig, TraceEnd,
};
pub use energy_trace_bpf::decode;
pub use energy_trace_bpf::sampling::event;
pub use energy_trace_bpf::sampling::{Rate, online_cpus, rate_fix, read_limit_at, read_ticks};
pub use energy_trace_bpf::{BtfError, KernelTypes, LoadedProgram, ProbeError};
pub use energy_trace_unwind::static_probes::ProbeName;
pub use gpu::gpu_libraries_in;
pub use priority::{Before, leave_command};
pub use range_probes::RangeProbe;
pub use tracer::Tracer;
