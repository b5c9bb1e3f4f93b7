//! aarch64: the folders of its libraries.
//!
//! Leaves out the CPU's model, which the files of any machine may tell of (`host/cpu_model.rs`).

/// Where Debian and Ubuntu have libraries (<https://wiki.debian.org/Multiarch/Tuples>).
pub const LIBRARIES: &str = "/usr/lib/aarch64-linux-gnu";
/// The same below the root.
pub const ROOT_LIBRARIES: &str = "/lib/aarch64-linux-gnu";
