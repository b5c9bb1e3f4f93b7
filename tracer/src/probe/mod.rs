//! The probes: loading and attaching the BPF programs, reading what they send, and turning it into records.
//!
//! Each room knows those before it, and none after:
//!
//! ```text
//! bpf/        the BPF object: its maps, its ring buffers, the events in them; the only room that names `aya`, with `sampling/`
//! sampling/   which event samples and how often, on CPUs that come and go
//! tables/     unwind tables of mapped files: made once a file, shared, dropped when room is needed
//! processes/  who was seen: processes, threads, their mappings, their interpreter
//! stacks/     from addresses and code objects to numbered frames and stacks
//! gpu/        calls of GPU libraries, and what is told of kernels
//! count/      calls that are counted on request
//! collect/    events become records, on the reader's thread
//! ```
//!
//! Data leaves as `Record`s on a channel; nothing else does. Leaves out power and what records mean.

mod activity;
mod bpf;
mod collect;
mod config;
mod count;
mod gpu;
mod priority;
mod processes;
mod prologue;
mod records;
mod sampling;
mod stacks;
mod tables;
mod tracer;

pub use bpf::decode;
pub use bpf::{BtfError, KernelTypes, LoadedProgram, ProbeError};
pub use config::{GroupId, LiveCounts, OtherProcess, TraceAccount, TraceConfig, TraceEnd};
pub use count::{CountName, count_names_of, is_counted_by_default, python_names};
pub use priority::{Before, leave_command};
pub use sampling::event;
pub use sampling::{Rate, online_cpus, rate_fix, read_limit_at, read_ticks};
pub use tracer::Tracer;
