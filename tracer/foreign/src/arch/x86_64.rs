//! x86-64: whose numbers a filter of system calls means, and calls that newer processors never had.
//!
//! Leaves out which calls a worker may make (`resolver/sandbox.rs`).

use seccompiler::TargetArch;

/// Whose numbers the filter compares (`AUDIT_ARCH_X86_64`).
pub(crate) const TARGET: TargetArch = TargetArch::x86_64;

/// What the C library here may call in place of `ppoll`, `newfstatat` and `readlinkat`.
pub(crate) const OLD_CALLS: [i64; 4] = [libc::SYS_poll, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink];
