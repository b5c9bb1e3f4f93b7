//! From raw samples to stacks: address spaces, unwind rows, CPython's layouts and code objects, and the seam between native and
//! Python frames.
//!
//! Leaves out the walking itself (`tracer-ebpf`, shared with the kernel side) and native names (`symbolize/`).

pub mod address_space;
pub mod cfi;
pub mod cpython;
mod eh_frame;
pub mod elf;
pub mod fde;
pub mod file_bytes;
pub mod merge;
pub mod seam;
pub mod stack_copy;
pub mod vdso;
