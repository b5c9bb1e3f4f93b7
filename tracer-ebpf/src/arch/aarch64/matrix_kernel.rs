//! Matrix kernels of this processor leave the stack pointer where it is: none is known that puts it away.

/// Nobody moves the stack pointer to where one begins.
pub use super::kernel::PAGE;

/// None of OpenBLAS'.
pub const OPENBLAS: [(u64, u64); 0] = [];
/// None of oneDNN's.
pub const ONEDNN: [u64; 0] = [];
/// No place where others do.
pub const KEPT_AT: Option<u64> = None;
/// What they would push, which nobody asks for.
pub const ONEDNN_PUSHED: u64 = 48;
