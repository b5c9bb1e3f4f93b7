//! aarch64: whose numbers a filter of system calls means. It never had the calls that newer ones took the place of.
//!
//! Leaves out which calls a worker may make (`resolver/sandbox.rs`).

use seccompiler::TargetArch;

/// Whose numbers the filter compares (`AUDIT_ARCH_AARCH64`).
pub(crate) const TARGET: TargetArch = TargetArch::aarch64;

/// None that the C library may call in place of newer ones.
pub(crate) const OLD_CALLS: [i64; 0] = [];
