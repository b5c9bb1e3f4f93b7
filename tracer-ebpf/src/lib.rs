//! What the BPF side and user space share: the wire types, and the stack walkers, generic over the memory that they read.
//!
//! The walkers are plain Rust without allocation: the BPF programs drive them step by step over the memory of the interrupted
//! thread, tests and the user-space unwinder drive them with a `for` loop over a snapshot. Leaves out maps, hooks and helpers
//! (`main.rs` and the modules beside it), which exist only in the BPF binary.
//!
//! ```
//! use tracer_ebpf::countdown::Countdown;
//!
//! // Of 1,500 ticks 1,000 become samples: every second distance is of two ticks, as the numbers draw it.
//! let mut countdown = Countdown::new(1_500, 1_000);
//! let taken: Vec<bool> = [0, u32::MAX, 0].iter().map(|&random| countdown.is_sample(2, || random)).collect();
//! assert_eq!(taken, [true, false, true]);
//! ```
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

pub mod arch;
mod calls;
pub mod code_check;
pub mod count;
pub mod countdown;
pub mod cycle;
pub mod gpu;
pub mod hotspot;
pub mod hotspot_layout;
pub mod lookup;
pub mod mappings;
pub mod memory;
pub mod native;
pub mod on_cpu;
pub mod python;
pub mod python_layout;
pub mod ranges;
pub mod reach;
pub mod rows;
pub mod saved_stack_pointer;
pub mod scan;
pub mod thread_context;
pub mod unwind_row_cache;
pub mod v8;
pub mod window;
pub mod wire;
