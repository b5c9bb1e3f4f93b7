//! From raw samples to stacks: address spaces, unwind rows, CPython's layouts and code objects, and how native and Python
//! frames become one stack.
//!
//! ```
//! use energy_trace_unwind::address_space::AddressSpace;
//!
//! let maps = "55d0c0a00000-55d0c0b00000 r-xp 00001000 08:01 42 /usr/bin/python3.11";
//! let space = AddressSpace::parse(maps);
//! let mapping = space.find(0x55d0_c0a0_0010).unwrap();
//! assert_eq!((mapping.path.as_str(), mapping.offset), ("/usr/bin/python3.11", 0x1000));
//! assert!(space.find(0x1000).is_none());
//! ```
//!
//! Leaves out the walking itself (`tracer-ebpf`, shared with the kernel side) and native names (package `symbols`).

pub mod address_space;
pub mod anchoring;
mod arch;
pub mod believed;
mod called;
pub mod cfi;
mod code_rows;
mod code_rule;
mod context_variable;
mod coroutines;
pub mod cpython;
mod eh_frame;
pub mod elf;
pub mod fde;
pub mod file_bytes;
mod full_rules;
pub mod functions;
pub mod generated_code;
pub mod go;
pub mod hotspot;
pub mod living;
pub mod merge;
pub mod plt;
pub mod stack_copy;
pub mod static_probes;
pub mod thread_context;
pub mod v8;
pub mod vdso;
