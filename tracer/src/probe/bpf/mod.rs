//! The BPF object: loading it, its maps and its ring buffers, and the events in them.
//!
//! `object` loads and attaches, with what `settings` says of the running kernel (`btf`); `row_maps` and `process_maps` are written by user
//! space; `rings` are read, in `time_order`, and `decode` makes events of their bytes; `call_counts` counts calls. Leaves out what events mean (`collect/`).

pub(super) mod btf;
pub(super) mod call_counts;
pub mod decode;
pub(super) mod error;
pub(super) mod log;
pub(super) mod object;
pub(super) mod per_cpu;
pub(super) mod process_maps;
pub(super) mod rings;
pub(super) mod row_maps;
mod settings;
mod time_order;
pub(super) mod uprobe_multi;

pub use btf::{BtfError, KernelTypes};
pub use error::ProbeError;
pub use object::LoadedProgram;
