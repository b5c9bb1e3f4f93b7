//! From raw samples to stacks: address spaces, unwind rows, CPython's layouts and code objects, and how native and Python
//! frames become one stack.
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
pub mod stack_copy;
pub mod v8;
pub mod vdso;
